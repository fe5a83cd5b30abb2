//go:build unix

package broker

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports for servers are drawn below the ranges from which Linux (32768 up) and
// macOS (49152 up) take the local ports of outgoing connections: such a port
// cannot be lost to a connection while its server restarts. They also lie above
// the ports of well-known servers, RabbitMQ's 15672 and 25672 among them.
const (
	lowestPort  = 25_700
	highestPort = 32_767
)

// freePorts finds n ports that nobody listens on, on the loopback interface. That
// they stay free until they are used cannot be promised: who uses them tries again
// with others.
func freePorts(n int) ([]int, error) {
	const attempts = 500
	var ports []int
	var held []net.Listener
	defer func() {
		for _, listener := range held {
			listener.Close()
		}
	}()
	for range attempts {
		if len(ports) == n {
			return ports, nil
		}
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		// Every interface: another server on a port of one of them shadows it.
		listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		held = append(held, listener)
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("find %d free ports in %d..%d: too many are taken", n, lowestPort, highestPort)
}
