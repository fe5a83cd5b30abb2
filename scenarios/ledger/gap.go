package ledger

// Gap reports whether a command can be put between two of the client's on the channel: it is open at both
// ends, and no content of the client's is incomplete there.
func (f *Follower) Gap(channel uint16) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := f.channels[channel]
	return !f.ended && f.closing == nil && ch != nil && ch.closing == nil && f.client.Open(channel) == nil
}
