// Package reference consumes from RabbitMQ.
package reference
