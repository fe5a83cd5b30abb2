// Package reference consumes messages from RabbitMQ, retries those that could not be processed, and parks
// those that cannot be: without losing one, without sending a retry to anybody but the consumer that failed,
// and without taking the consumer's neighbours down.
//
//	client, err := reference.Open(ctx, reference.Options{URLs: []string{"amqp://localhost"}})
//	...
//	consumer, err := client.Consume(ctx, reference.Queue("emails"), func(ctx context.Context, d reference.Delivery) error {
//		return send(ctx, d.Body)
//	})
//	...
//	err = client.Close(ctx) // waits for what runs
//
// # What becomes of a message
//
// A handler that returns nil has processed the message, and it is acked. A handler that returns an error or
// panics has failed. The message is then published to a retry queue, in which it waits for the next rung of
// the ladder before the broker brings it back; after the last rung it is published to the parking queue,
// where it stays until somebody looks at it. A ladder of n rungs makes n+1 attempts. [Park] parks at once:
// for a message that this consumer will never be able to process. [Retry] says what a bare error says.
// Both work through wrapping, joining, and across copies of this package in one program.
//
// The default ladder is 1s, 10s, 30s and 90s: five attempts.
//
// # What is guaranteed
//
//   - The copy is published first, with the broker's confirm awaited, and only then the original is acked.
//     Whatever dies in between, the broker has the message: at worst twice, never not at all.
//   - A copy that could not be published (refused, returned as unroutable, not confirmed in time, the
//     connection gone) leaves the original unacked. It is handed back to its queue, but held first for a
//     delay that doubles each time the same message comes to this, from HandBack.Min to HandBack.Max.
//   - A retry goes to the queue that failed and to no other. The original exchange never sees it again, and
//     a CC header does not spread it.
//   - A failure, of whatever kind, stops neither the consumer nor its siblings nor the process.
//   - Properties, headers and body are kept. Copies are persistent even where the original was not. The
//     properties expiration and user-id and the headers CC and BCC are kept under headers of the library's
//     own, since a copy that had them would expire, be refused, or spread.
//   - A lost connection or channel, a cancelled subscription and a restarted broker end with the consumer
//     subscribed again, once, and its topology declared again. What was not settled comes back from the
//     broker, as the same attempt.
//   - While the broker accepts no publishes (a memory or disk alarm), handled messages go on being acked;
//     failed ones wait.
//
// # What is not
//
//   - Messages are delivered at least once. A handler must cope with a message it has processed before.
//   - Order is not kept across a failure: a retry comes back behind what arrived meanwhile. Retries of one
//     rung keep their order among themselves, as far as handlers that run concurrently do (a prefetch of 1).
//   - The way back from a retry queue is the broker's own dead-lettering. On classic queues it is at most
//     once: where the source queue cannot take the message at that moment (deleted, full and rejecting, on a
//     node that is gone), it is lost. Options.RetryArguments can make the retry queues quorum queues with
//     at-least-once dead-lettering: x-queue-type quorum, x-dead-letter-strategy at-least-once, x-overflow
//     reject-publish.
//   - A message of an exclusive source that waits for its retry when the connection is lost comes back to a
//     queue that is gone, and is dropped.
//   - A handed-back message counts as redelivered. A quorum queue with a delivery limit (20 by default on
//     RabbitMQ 4) may drop or dead-letter it, where its copies cannot be published for long enough: from
//     4.3 on handing back does not count; on earlier 4.x give such a source an x-delivery-limit of -1.
//   - Parking queues grow until somebody drains them. Alert on [KindPark], or on their length.
//   - A request that is parked is not answered: its caller waits. The parked copy has the reply-to and
//     the correlation-id, so it can still be answered.
//
// # Topology
//
// All of it is declared when a consumer starts and when it comes back, never while a message fails: first the
// source, then the rest, then the subscription.
//
//	retry.<ms>       a fanout exchange and a durable queue per distinct delay, shared by all sources.
//	                 x-message-ttl is the delay, x-dead-letter-exchange the default exchange. A copy is
//	                 published to it with the source queue's name as its key, which the broker keeps: so it
//	                 comes home through the default exchange. A changed delay is a new queue; the old one
//	                 still empties itself into the sources.
//	parked.<queue>   a parking queue per source queue: durable, or exclusive where the source is.
//
// Do not delete these on a running system. An exchange of the library's that is missing is put back when its
// absence has cost the publisher its channel; a queue is put back when the consumer comes back.
//
// # Headers
//
// With the default prefix, on copies:
//
//	x-attempt                the attempt, counted from 1: the next one on a retry, the failed one when parked.
//	                         The first delivery has none. It alone is counted by, not x-death: that counts
//	                         deaths, per queue, and not alike in all versions. A value that is no positive
//	                         integer counts as absent. To replay a parked message from the start, publish it
//	                         to its source queue without this header.
//	x-exchange, x-key        where the message was first published to. Written on the first failure and
//	                         kept; afterwards nothing else knows. [Delivery] has them on every attempt.
//	x-queue                  the source queue, when parked.
//	x-reason, x-cause        the text of the error, and of the innermost error it wraps, when parked: at most
//	                         512 bytes of UTF-8 each.
//	x-at                     when it was parked, in milliseconds since 1970.
//	x-cc, x-bcc, x-user-id, x-expiration, x-prior-death
//	                         what the copy could not carry as it came.
//
// # Connections
//
// A client has two, named after their roles: one consumes and acks, the other publishes copies and replies.
// Each consumer has a channel of its own on both, so an error that closes one is that consumer's alone.
// Publishes of a consumer are confirmed in parallel, as many as its prefetch.
package reference
