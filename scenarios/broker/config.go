//go:build unix

package broker

import (
	"fmt"
	"strconv"
	"strings"
)

// baseConfig is the part of rabbitmq.conf that every broker of ours has: an
// administrator of its own in the place of guest.
func baseConfig(to access) string {
	return fmt.Sprintf(`default_user = %s
default_pass = %s
loopback_users = none
`, to.User, to.Password)
}

// erlangArguments is the variable that the server's script passes to the VM.
const erlangArguments = "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"

// quorumTick is how often a quorum queue tells its numbers, in milliseconds.
// RabbitMQ's own 5000 would make every look at them up to 5 s old.
const quorumTick = 100

// withArguments adds parkproof's arguments for the VM to those in an environment.
func withArguments(env []string, more ...string) []string {
	arguments := append([]string{"-rabbit", "quorum_tick_interval", strconv.Itoa(quorumTick)}, more...)
	var rest []string
	for _, pair := range env {
		if value, found := strings.CutPrefix(pair, erlangArguments+"="); found {
			arguments = append(arguments, value)
			continue
		}
		rest = append(rest, pair)
	}
	return append(rest, erlangArguments+"="+strings.Join(arguments, " "))
}
