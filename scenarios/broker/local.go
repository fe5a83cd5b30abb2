//go:build unix

package broker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parkproof/parkproof/scenarios/process"
)

const (
	// localhost: everything of a local node listens on loopback only.
	localhost = "127.0.0.1"
	// folderPrefix begins the temporary folders; the owner follows.
	folderPrefix = "parkproof-"
	// stopGrace is for an orderly stop: queues are written to disk, connections
	// closed. It takes about 1 s.
	stopGrace = 20 * time.Second
	// epmdLimit bounds the start of epmd, which takes milliseconds.
	epmdLimit = 10 * time.Second
)

// local is a private node of the installed RabbitMQ: its own folder, cookie, node
// name, epmd and ports.
type local struct {
	installed installation
	options   Options
	folder    string
	nodename  string
	cookie    string
	to        access
	epmdPort  int
	distPort  int

	epmd *process.Process
	// server is replaced by a restart, while others read the log.
	server atomic.Pointer[process.Process]
}

func newLocal(spec Spec, options Options, owner Owner) (*local, error) {
	installed, err := findInstallation(spec.Path)
	if err != nil {
		return nil, err
	}
	parent := options.WorkDir
	if parent == "" {
		parent = os.TempDir()
	}
	folder, err := os.MkdirTemp(parent, folderPrefix+owner.String()+"-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the local broker: %w", err)
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return nil, fmt.Errorf("make a folder for the local broker: %w", err)
	}
	l := &local{
		installed: installed, options: options, folder: folder,
		// The name is an Erlang atom, and two nodes of a machine must differ in it.
		nodename: "pp" + strings.ToLower(rand.Text()[:8]) + "@localhost",
		cookie:   rand.Text(),
		to:       access{Host: localhost, User: "parkproof", Password: rand.Text(), Vhost: "/"},
	}
	if err := l.prepare(); err != nil {
		os.RemoveAll(folder)
		return nil, fmt.Errorf("prepare the local broker: %w", err)
	}
	return l, nil
}

func (l *local) path(parts ...string) string {
	return filepath.Join(append([]string{l.folder}, parts...)...)
}

// prepare chooses the ports and writes the files.
func (l *local) prepare() error {
	ports, err := freePorts(4)
	if err != nil {
		return err
	}
	l.to.Port, l.epmdPort, l.distPort = ports[0], ports[1], ports[2]
	l.to.Management = "http://" + net.JoinHostPort(localhost, strconv.Itoa(ports[3]))
	for _, folder := range []string{"home", "log", "mnesia"} {
		if err := os.MkdirAll(l.path(folder), 0o700); err != nil {
			return err
		}
	}
	for _, file := range []struct {
		path, text string
		mode       os.FileMode
	}{
		{l.path("home", ".erlang.cookie"), l.cookie, 0o400},
		{l.path("rabbitmq.conf"), l.config(ports[3]), 0o600},
		{l.path("enabled_plugins"), "[rabbitmq_management].\n", 0o600},
		{l.path("advanced.config"), l.options.Advanced, 0o600},
	} {
		if file.text == "" {
			continue
		}
		// A file of mode 0400 cannot be written over.
		if err := os.Remove(file.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(file.path, []byte(file.text), file.mode); err != nil {
			return err
		}
	}
	return nil
}

func (l *local) config(management int) string {
	return baseConfig(l.to) + fmt.Sprintf(`listeners.tcp.1 = %s:%d
management.tcp.ip = %s
management.tcp.port = %d
`, localhost, l.to.Port, localhost, management) + l.options.Config + "\n"
}

// environment is the node's and rabbitmqctl's. Nothing that would point them at
// another RabbitMQ is taken over.
func (l *local) environment() []string {
	var env []string
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		switch {
		case strings.HasPrefix(name, "RABBITMQ_"), strings.HasPrefix(name, "ERL_"), name == "HOME", name == "NOTIFY_SOCKET":
		default:
			env = append(env, pair)
		}
	}
	// The distribution listens on loopback. -sname starts it with the VM: RabbitMQ
	// then needs no second VM to see to epmd, and none may start another epmd.
	dist := "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}"
	env = append(env,
		"HOME="+l.path("home"),
		"RABBITMQ_NODENAME="+l.nodename,
		"RABBITMQ_DIST_PORT="+strconv.Itoa(l.distPort),
		"RABBITMQ_CONF_ENV_FILE=/dev/null",
		"RABBITMQ_CONFIG_FILE="+l.path("rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE="+l.path("advanced.config"),
		"RABBITMQ_MNESIA_BASE="+l.path("mnesia"),
		"RABBITMQ_LOG_BASE="+l.path("log"),
		"RABBITMQ_LOGS="+l.logFile(),
		"RABBITMQ_PID_FILE="+l.path("pid"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+l.path("enabled_plugins"),
		"ERL_EPMD_PORT="+strconv.Itoa(l.epmdPort),
		"ERL_EPMD_ADDRESS="+localhost,
		"ERL_CRASH_DUMP_SECONDS=0", // a killed start writes no dump
		// The script then becomes the node, with no shell to wait beside it.
		"RUNNING_UNDER_SYSTEMD=true",
		"RABBITMQ_CTL_ERL_ARGS="+dist,
		fmt.Sprintf("RABBITMQ_CTL_DIST_PORT_MIN=%d", lowestPort),
		fmt.Sprintf("RABBITMQ_CTL_DIST_PORT_MAX=%d", highestPort),
	)
	return append(env, withArguments(l.options.Env, "-sname", l.nodename, dist,
		"-kernel inet_dist_listen_min", strconv.Itoa(l.distPort), "-kernel inet_dist_listen_max", strconv.Itoa(l.distPort))...)
}

func (l *local) logFile() string  { return l.path("log", "rabbit.log") }
func (l *local) bootFile() string { return l.path("log", "boot.log") }

// alive: a process that has not ended.
func alive(p *process.Process) bool {
	if p == nil {
		return false
	}
	_, ended := p.Status()
	return !ended
}

func (l *local) start(ctx context.Context) error {
	if !alive(l.epmd) {
		if err := l.startEpmd(ctx); err != nil {
			return err
		}
	}
	if alive(l.server.Load()) {
		return nil
	}
	boot, err := os.OpenFile(l.bootFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the local broker's log: %w", err)
	}
	defer boot.Close()
	server, err := process.Start(ctx, process.Command{
		Path: l.installed.Server, Env: l.environment(), Dir: l.folder, Stdout: boot, Stderr: boot,
		RemoveOnExit: []string{l.folder},
	})
	if err != nil {
		return fmt.Errorf("start the local broker: %w", err)
	}
	l.server.Store(server)
	return nil
}

// startEpmd runs epmd in the foreground, where it ends with us; the one that
// Erlang would start is a daemon that stays.
func (l *local) startEpmd(ctx context.Context) error {
	boot, err := os.OpenFile(l.path("log", "epmd.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the local broker's log: %w", err)
	}
	defer boot.Close()
	l.epmd, err = process.Start(ctx, process.Command{
		Path: l.installed.Epmd, Args: []string{"-port", strconv.Itoa(l.epmdPort), "-address", localhost},
		Env: l.environment(), Dir: l.folder, Stdout: boot, Stderr: boot,
		RemoveOnExit: []string{l.folder},
	})
	if err != nil {
		return fmt.Errorf("start epmd: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, epmdLimit)
	defer cancel()
	address := net.JoinHostPort(localhost, strconv.Itoa(l.epmdPort))
	ticker := time.NewTicker(2 * time.Millisecond) // it listens within about 5 ms
	defer ticker.Stop()
	for {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			connection.Close()
			if alive(l.epmd) {
				return nil
			}
		}
		select {
		case <-l.epmd.Done():
			return fmt.Errorf("epmd ended while it started: %w", errPortTaken)
		case <-ctx.Done():
			return fmt.Errorf("epmd does not answer on %s: %w", address, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// move ends what runs and takes other ports.
func (l *local) move() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	if err := l.end(ctx); err != nil {
		return err
	}
	os.Remove(l.bootFile()) // the next failure is told by what it wrote itself
	os.Remove(l.logFile())
	return l.prepare()
}

// end kills the node and epmd.
func (l *local) end(ctx context.Context) error {
	var failures []error
	for _, p := range []*process.Process{l.server.Load(), l.epmd} {
		if p != nil {
			if _, err := p.Kill(ctx); err != nil {
				failures = append(failures, err)
			}
		}
	}
	return errors.Join(failures...)
}

func (l *local) stop(ctx context.Context) error {
	server := l.server.Load()
	if server == nil {
		return nil
	}
	_, err := server.Stop(ctx, stopGrace)
	return err
}

func (l *local) kill(ctx context.Context) error {
	server := l.server.Load()
	if server == nil {
		return nil
	}
	_, err := server.Kill(ctx)
	return err
}

func (l *local) pause(_ context.Context, paused bool) error {
	server := l.server.Load()
	if server == nil {
		return os.ErrProcessDone
	}
	if paused {
		return server.Pause()
	}
	return server.Resume()
}

func (l *local) died() <-chan struct{} {
	server := l.server.Load()
	if server == nil {
		return nil
	}
	return server.Done()
}

func (l *local) access() access { return l.to }

// log is the node's log; before it has one, what the boot printed.
func (l *local) log(_ context.Context, n int) ([]string, error) {
	lines, err := tailFile(l.logFile(), n)
	if err != nil {
		return nil, err
	}
	boot, err := tailFile(l.bootFile(), n)
	if err != nil {
		return nil, err
	}
	if lines == nil || !alive(l.server.Load()) {
		// What a node that failed prints last is its reason.
		lines = append(lines, boot...)
	}
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return lines, nil
}

func (l *local) control(ctx context.Context, args []string) (string, error) {
	if l.installed.Ctl == "" {
		return "", fmt.Errorf("no rabbitmqctl beside %s", l.installed.Server)
	}
	var out, errs bytes.Buffer
	ctl, err := process.Start(ctx, process.Command{
		Path: l.installed.Ctl, Args: append([]string{"--node", l.nodename}, args...),
		Env: l.environment(), Dir: l.folder, Stdout: &out, Stderr: &errs,
	})
	if err != nil {
		return "", err
	}
	status, err := ctl.Wait(ctx)
	if err != nil {
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
		defer cancel()
		_, killed := ctl.Kill(patient)
		return "", errors.Join(err, killed)
	}
	if !status.Success() {
		return out.String(), fmt.Errorf("it %s: %s", status, strings.Join(lastLines(errs.String()+out.String(), 3), "; "))
	}
	return out.String(), nil
}

func (l *local) can(capability Capability) bool {
	switch capability {
	case Restart, Configure:
		return true
	case Control:
		return l.installed.Ctl != ""
	}
	return false
}

func (l *local) describe(*Product) {}

// remove kills: an orderly stop would write queues that nobody reads again.
func (l *local) remove(ctx context.Context) error {
	err := l.end(ctx)
	return errors.Join(err, os.RemoveAll(l.folder))
}
