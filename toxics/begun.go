package toxics

// begunLimit bounds, in bytes, the frames of incomplete contents that a direction keeps back, where a fault may want
// the whole of one. A case's largest message is 1 MiB; one that never ends, or is begun on every channel, is passed on
// as it comes.
const begunLimit = 8 << 20

// overlong reports whether a content is longer than may be kept back beside the others that have begun. Each has its
// share, so all together are at most begunLimit times the harmonic number of their channels: 12 times with 65536.
func (d *direction) overlong(b *begun) bool {
	return len(b.raw) > begunLimit/max(1, len(d.begun))
}
