package ledger

import (
	"cmp"
	"slices"
)

// pair finds for each failed delivery a copy of its own that was confirmed before its ack, where several
// deliveries of one message to one queue were open at once. Nothing on the wire says which copy is of which
// of them: they carry one id and one body. What can be said is whether there was a confirmed copy for every
// ack; only where there was not does any of them count as released unsafely.
func (b *Book) pair() {
	groups := map[entryKey][]*Delivery{}
	for _, d := range b.Deliveries {
		if d.Acked != 0 && !d.NoAck && d.Verdict != handledOK && len(d.Copies) > 0 {
			k := entryKey{d.Message, d.Queue}
			groups[k] = append(groups[k], d)
		}
	}
	for _, ds := range groups {
		if len(ds) < 2 || !slices.ContainsFunc(ds, func(d *Delivery) bool { _, g := best(d); return g == ReleasedUnsafe }) {
			continue
		}
		for d, c := range pairs(ds) {
			d.pair = c
		}
	}
}

// pairs gives each of the deliveries one of all their copies, or none of them any. Taken in the order of
// their acks, each may have what those before it might have had; the oldest copy that fits it leaves the
// younger ones, which fit more of the others.
func pairs(ds []*Delivery) map[*Delivery]*Copy {
	var copies []*Copy
	for _, d := range ds {
		copies = append(copies, d.Copies...)
	}
	byAge := func(x, y *Copy) int { return cmp.Compare(x.Seq, y.Seq) }
	byAck := func(x, y *Delivery) int { return cmp.Compare(x.Acked, y.Acked) }
	slices.SortFunc(copies, byAge)
	found := map[*Delivery]*Copy{}
	for _, d := range slices.SortedFunc(slices.Values(ds), byAck) {
		at := slices.IndexFunc(copies, func(c *Copy) bool {
			return d.Seq < c.Seq && d.Process == c.Process && grade(d, c) != ReleasedUnsafe
		})
		if at < 0 {
			return nil
		}
		found[d] = copies[at]
		copies = slices.Delete(copies, at, at+1)
	}
	return found
}

// hasty are the deliveries that were acked before their handler had succeeded. Where several deliveries of one
// message to one queue were open at once, nothing says which of them a handler was called for; so what counts
// is whether there was, at each of their acks, a handler that had succeeded for it.
func (b *Book) hasty() map[*Delivery]bool {
	groups := map[entryKey][]*Delivery{}
	for _, d := range b.Deliveries {
		if d.Acked != 0 && !d.NoAck && d.Verdict == handledOK {
			k := entryKey{d.Process + "/" + d.Message, d.Queue}
			groups[k] = append(groups[k], d)
		}
	}
	found := map[*Delivery]bool{}
	for _, ds := range groups {
		var acked, settled []int
		for _, d := range ds {
			acked, settled = append(acked, d.Acked), append(settled, d.Settled)
		}
		slices.Sort(acked)
		slices.Sort(settled)
		early := false
		for i := range acked {
			early = early || acked[i] < settled[i]
		}
		for _, d := range ds {
			if early && d.Acked < d.Settled {
				found[d] = true
			}
		}
	}
	return found
}
