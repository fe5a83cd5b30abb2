//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/parkproof/parkproof/scenarios/process"
)

// firstCaseAtMost is how much later than a bare server answers a case may begin, as a ratio: parkproof waits
// for the management API too, and starts itself.
const firstCaseAtMost = 1.3

// boot compares how long a broker takes until it answers: of parkproof, and the bare server with the same
// plugin, started as its script starts it. And it measures how long parkproof takes until its first case
// begins, from its own start.
func boot(ctx context.Context, b *bench) ([]row, error) {
	if err := b.build(ctx); err != nil {
		return nil, err
	}
	var ours, bare, first []float64
	for range b.boots {
		took, err := bootBare(ctx)
		if err != nil {
			return nil, fmt.Errorf("the bare server: %w", err)
		}
		bare = append(bare, took.Seconds())

		began := time.Now()
		started, err := startLocal(ctx)
		if err != nil {
			return nil, err
		}
		ours = append(ours, time.Since(began).Seconds())
		if err := started.Stop(ctx); err != nil {
			return nil, err
		}

		run, launched, err := b.verify(ctx, "--tags", "@ATT-001")
		if err != nil {
			return nil, err
		}
		// The record counts from the moment the broker is asked for; this counts from the command line.
		late := run.Started.Sub(launched).Seconds()
		first = append(first, late+run.Brokers[0].FirstCaseSeconds)
	}
	seconds := func(value float64) string { return fmt.Sprintf("%.2f s", value) }
	return []row{
		{
			what: "boot of a local broker, until it answers", measured: seconds(median(ours)),
			beside: seconds(median(bare)) + " the bare server", figure: median(ours) / median(bare),
		},
		{
			what: "first case begins, from the command line", measured: seconds(median(first)),
			beside: seconds(median(bare)) + " the bare server", figure: median(first) / median(bare), most: firstCaseAtMost,
		},
	}, nil
}

// bootBare starts a RabbitMQ as its own script does, and returns how long that took until an AMQP handshake
// was answered.
func bootBare(ctx context.Context) (took time.Duration, err error) {
	server, err := serverScript()
	if err != nil {
		return 0, err
	}
	folder, err := os.MkdirTemp("", "parkproof-bench-bare-")
	if err != nil {
		return 0, fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(folder)
	ports, err := freePorts(4)
	if err != nil {
		return 0, err
	}
	amqpPort, managementPort, distributionPort, epmdPort := ports[0], ports[1], ports[2], ports[3]
	config := fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%d\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %d\n", amqpPort, managementPort)
	for name, text := range map[string]string{"rabbitmq.conf": config, "enabled_plugins": "[rabbitmq_management].\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return 0, err
		}
	}
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "RABBITMQ_") && !strings.HasPrefix(pair, "ERL_") && !strings.HasPrefix(pair, "HOME=") {
			env = append(env, pair)
		}
	}
	env = append(env,
		"HOME="+folder,
		"RABBITMQ_NODENAME=bare@localhost",
		"RABBITMQ_CONF_ENV_FILE=/dev/null",
		"RABBITMQ_CONFIG_FILE="+filepath.Join(folder, "rabbitmq.conf"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(folder, "enabled_plugins"),
		"RABBITMQ_MNESIA_BASE="+filepath.Join(folder, "mnesia"),
		"RABBITMQ_LOG_BASE="+filepath.Join(folder, "log"),
		"RABBITMQ_PID_FILE="+filepath.Join(folder, "pid"),
		"RABBITMQ_DIST_PORT="+strconv.Itoa(distributionPort),
		"ERL_EPMD_PORT="+strconv.Itoa(epmdPort),
		"ERL_EPMD_ADDRESS=127.0.0.1",
	)
	output, err := os.Create(filepath.Join(folder, "output"))
	if err != nil {
		return 0, err
	}
	defer output.Close()
	began := time.Now()
	node, err := process.Start(ctx, process.Command{
		Path: server, Env: env, Dir: folder, Stdout: output, Stderr: output, RemoveOnExit: []string{folder},
	})
	if err != nil {
		return 0, err
	}
	defer func() {
		// The supervisor ends the epmd that the node started, too.
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		_, killed := node.Kill(patient)
		err = errors.Join(err, killed)
	}()
	url := "amqp://guest:guest@" + net.JoinHostPort("127.0.0.1", strconv.Itoa(amqpPort))
	ticker := time.NewTicker(handshakePoll)
	defer ticker.Stop()
	for {
		connection, err := amqp.Dial(url)
		if err == nil {
			took := time.Since(began)
			return took, connection.Close()
		}
		select {
		case <-node.Done():
			text, _ := os.ReadFile(output.Name())
			return 0, fmt.Errorf("it ended while it started: %s", lastLine(string(text)))
		case <-ctx.Done():
			return 0, fmt.Errorf("it does not answer: %w", err)
		case <-ticker.C:
		}
	}
}

// handshakePoll is the pause between two attempts to connect, as long as parkproof's own.
const handshakePoll = 25 * time.Millisecond

// serverScript is RabbitMQ's own script: the one in PATH may be a package's wrapper that changes the user.
func serverScript() (string, error) {
	const packaged = "/usr/lib/rabbitmq/bin/rabbitmq-server"
	if _, err := os.Stat(packaged); err == nil {
		return packaged, nil
	}
	path, err := exec.LookPath("rabbitmq-server")
	if err != nil {
		return "", errors.New("rabbitmq-server is not installed: apt-get install rabbitmq-server")
	}
	return path, nil
}

// freePorts are ports of the loopback interface that nobody listens on.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer listener.Close()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
