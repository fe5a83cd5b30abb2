//go:build unix

package broker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// traces is what a local node leaves behind while it lives.
type traces struct {
	Pids   []int
	Folder string
	Addrs  []string
}

func tracesOf(b *Broker) traces {
	node := b.node.(*local)
	return traces{
		Pids: []int{node.server.Load().Pid(), node.epmd.Pid()}, Folder: node.folder,
		Addrs: []string{b.Addr(), net.JoinHostPort(localhost, fmt.Sprint(node.epmdPort)), strings.TrimPrefix(b.ManagementURL(), "http://")},
	}
}

// left says what of the traces is still there.
func (tr traces) left() []string {
	var left []string
	for _, pid := range tr.Pids {
		if !gone(pid) {
			left = append(left, fmt.Sprintf("process %d", pid))
		}
	}
	if _, err := os.Stat(tr.Folder); !errors.Is(err, fs.ErrNotExist) {
		left = append(left, tr.Folder)
	}
	for _, addr := range tr.Addrs {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			left = append(left, "listener "+addr)
		}
	}
	return left
}

func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

func beParent(value string) {
	spec, err := Parse(value)
	if err == nil {
		var b *Broker
		if b, err = Start(context.Background(), spec, Options{WorkDir: os.Getenv("BROKER_TEST_WORK")}); err == nil {
			text, _ := json.Marshal(tracesOf(b))
			fmt.Println(string(text))
			select {}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestLocalBrokerIsPrivate(t *testing.T) {
	t.Parallel()
	b := localBroker(t)
	if b.Name() != "local" || b.Provider() != ProviderLocal || b.Product().Name != "RabbitMQ" || b.Version() == "" || b.Product().Erlang == "" {
		t.Errorf("%s, %s, %+v", b.Name(), b.Provider(), b.Product())
	}
	for _, capability := range []Capability{Vhosts, Management, Restart, Configure, Control} {
		if !b.Can(capability) {
			t.Errorf("it cannot %s", capability)
		}
	}
	if host, _, _ := net.SplitHostPort(b.Addr()); host != localhost {
		t.Errorf("it listens on %s", b.Addr())
	}
	node := b.node.(*local)
	for path, mode := range map[string]os.FileMode{
		node.folder: 0o700 | os.ModeDir, node.path("rabbitmq.conf"): 0o600, node.path("home", ".erlang.cookie"): 0o400,
	} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, mode)
		}
	}
	guest := access{Host: node.to.Host, Port: node.to.Port, User: "guest", Password: "guest"}
	if _, err := dial(within(t, 10*time.Second), guest, "/"); !errors.Is(err, amqp.ErrCredentials) {
		t.Errorf("guest: %v", err)
	}
	if err := b.Healthy(within(t, 10*time.Second)); err != nil {
		t.Error(err)
	}
	lines, err := b.LogTail(within(t, time.Second), 5)
	if err != nil || len(lines) != 5 {
		t.Errorf("%q, %v", lines, err)
	}
	out, err := b.Ctl(within(t, 20*time.Second), "eval", "node().")
	if err != nil || strings.TrimSpace(strings.Trim(out, "'\n")) != b.Product().Node {
		t.Errorf("ctl: %q, %v, want %s", out, err, b.Product().Node)
	}
	if _, err := b.Ctl(within(t, 20*time.Second), "no_such_command"); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("ctl: %v", err)
	}
}

func TestVhosts(t *testing.T) {
	t.Parallel()
	b := localBroker(t)
	began := time.Now()
	name := vhost(t, b)
	t.Logf("made in %s", time.Since(began))
	if owner, ok := ParseOwner(strings.TrimPrefix(name, vhostPrefix)); !ok || owner != b.Owner() {
		t.Errorf("%s is not ours", name)
	}
	connection, err := b.Dial(within(t, 10*time.Second), name)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare("q", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := channel.ExchangeDeclare("x", "fanout", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := channel.QueueBind("q", "key", "x", false, nil); err != nil {
		t.Fatal(err)
	}
	exchanges, err := b.Exchanges(within(t, 5*time.Second), name)
	if err != nil || !slices.ContainsFunc(exchanges, func(e Exchange) bool { return e.Name == "x" && e.Type == "fanout" && e.Durable }) {
		t.Errorf("%+v, %v", exchanges, err)
	}
	bindings, err := b.Bindings(within(t, 5*time.Second), name)
	if err != nil || !slices.ContainsFunc(bindings, func(b Binding) bool {
		return b.Source == "x" && b.Destination == "q" && b.Key == "key" && b.DestinationType == "queue"
	}) {
		t.Errorf("%+v, %v", bindings, err)
	}
	connections, err := b.Connections(within(t, 20*time.Second), name)
	if err != nil || len(connections) != 1 || connections[0].Client != "parkproof" {
		t.Errorf("%+v, %v", connections, err)
	}
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	if err := b.CloseConnections(within(t, 20*time.Second), name); err != nil {
		t.Error(err)
	}
	select {
	case <-closed:
	case <-time.After(5 * time.Second):
		t.Error("the connection stays open")
	}
	eventually(t, 5*time.Second, "no connection is listed", func() bool {
		connections, err := b.Connections(within(t, 20*time.Second), name)
		return err == nil && len(connections) == 0
	})
	if _, err := b.Dial(within(t, 10*time.Second), name+"-absent"); err == nil || strings.Contains(err.Error(), b.Password()) {
		t.Errorf("a virtual host that is not there: %v", err)
	}
}

// checkNumbers proves that Queues misses nothing that was confirmed before it.
func checkNumbers(t *testing.T, b *Broker, kinds ...string) {
	name := vhost(t, b)
	connection, err := b.Dial(within(t, 10*time.Second), name)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	const prefetch = 2
	if err := channel.Qos(prefetch, 0, false); err != nil {
		t.Fatal(err)
	}
	want := func(when, queue string, ready, unacked int) {
		t.Helper()
		began := time.Now()
		queues, err := b.Queues(within(t, 10*time.Second), name)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(queues, func(q Queue) bool { return q.Name == queue })
		if at < 0 {
			t.Fatalf("%s: %s is not listed", when, queue)
		}
		q := queues[at]
		if q.Ready != ready || q.Unacked != unacked || q.Total != ready+unacked || !q.Known || q.Age != 0 || q.Type != queue || !q.Durable {
			t.Errorf("%s, in %s: %+v, want %d and %d", when, time.Since(began), q, ready, unacked)
		}
	}
	for _, kind := range kinds {
		if _, err := channel.QueueDeclare(kind, true, false, false, false, amqp.Table{"x-queue-type": kind}); err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= 5; n++ {
			confirm, err := channel.PublishWithDeferredConfirmWithContext(within(t, 5*time.Second), "", kind, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent})
			if err != nil || !confirm.Wait() {
				t.Fatalf("publish: %v", err)
			}
			want("after a publish", kind, n, 0)
		}
		deliveries, err := channel.Consume(kind, kind, false, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		first := <-deliveries
		<-deliveries
		want("after two deliveries", kind, 3, 2)
		if err := channel.Cancel(kind, false); err != nil {
			t.Fatal(err)
		}
		if err := first.Ack(false); err != nil {
			t.Fatal(err)
		}
		// An ack has no answer; what follows it on the channel has.
		if _, err := channel.QueueDeclarePassive(kind, true, false, false, false, amqp.Table{"x-queue-type": kind}); err != nil {
			t.Fatal(err)
		}
		want("after an ack", kind, 3, 1)
	}
}

func TestNumbersAreLive(t *testing.T) {
	t.Parallel()
	checkNumbers(t, localBroker(t), "classic", "quorum")
}

func TestVhostsOfTheDeadAreSwept(t *testing.T) {
	t.Parallel()
	b := localBroker(t)
	dead := vhostPrefix + deadOwner(t).String() + "-x1"
	if err := b.CreateVhost(within(t, 20*time.Second), dead); err != nil {
		t.Fatal(err)
	}
	alive := vhost(t, b)
	swept, err := Sweep(within(t, 20*time.Second), b, Options{WorkDir: t.TempDir()})
	if err != nil || !slices.Equal(swept.Vhosts, []string{dead}) {
		t.Errorf("%+v, %v", swept, err)
	}
	connection, err := b.Dial(within(t, 5*time.Second), alive)
	if err != nil {
		t.Fatal(err)
	}
	connection.Close()
}

func TestBrokerOfAURL(t *testing.T) {
	t.Parallel()
	b := localBroker(t)
	ctx := within(t, 30*time.Second)
	there, err := Start(ctx, parse(t, b.URL("/")+"?management="+b.ManagementURL()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if there.Provider() != ProviderURL || !there.Can(Vhosts) || there.Can(Restart) || there.Can(Configure) || strings.Contains(there.Name(), b.Password()) {
		t.Errorf("%s: %s, %v", there.Name(), there.Provider(), there.Can(Vhosts))
	}
	name := vhost(t, there)
	if queues, err := there.Queues(ctx, name); err != nil || len(queues) != 0 {
		t.Errorf("%+v, %v", queues, err)
	}
	if err := there.Restart(ctx); !errors.Is(err, ErrUnsupported) {
		t.Errorf("restart: %v", err)
	}
	t.Cleanup(func() {
		if err := there.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})

	bare, err := Start(ctx, parse(t, b.URL("/")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Stop(ctx)
	if bare.Can(Vhosts) || bare.Can(Management) || bare.DefaultVhost() != "/" || bare.Version() != b.Version() {
		t.Errorf("%+v", bare.Product())
	}
	if _, err := bare.Queues(ctx, "/"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("queues: %v", err)
	}
	if err := bare.CreateVhost(ctx, "x"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("create: %v", err)
	}
	if _, err := Start(ctx, parse(t, b.URL("/")), Options{Config: "heartbeat = 1"}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("configured: %v", err)
	}
}

func TestBrokerOfAURLThatFails(t *testing.T) {
	t.Parallel()
	b := localBroker(t)
	closed, err := net.Listen("tcp", localhost+":0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	closed.Close()
	silent, err := net.Listen("tcp", localhost+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, tt := range []struct{ name, value, says string }{
		{"nobody there", "amqp://u:s3cr%2Ft@" + nobody + "/", "cannot be reached"},
		{"silence", "amqp://u:s3cr%2Ft@" + silent.Addr().String() + "/", "does not answer in time"},
		{"password", "amqp://parkproof:s3cr%2Ft@" + b.Addr() + "/", "refuses the user name or password"},
		{"virtual host", b.URL("absent"), "may not open virtual host"},
		{"management", b.URL("/") + "?management=http://" + nobody, "its management API"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limit := 10 * time.Second
			if tt.name == "silence" {
				limit = 300 * time.Millisecond
			}
			_, err := Start(within(t, limit), parse(t, tt.value), Options{})
			if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, tt.says)
			}
			for _, secret := range []string{"s3cr/t", "s3cr%2Ft", b.Password()} {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("%v shows the password", err)
				}
			}
		})
	}
}

func TestTwoBrokersAtOnceAndKillAndRestart(t *testing.T) {
	t.Parallel()
	first := localBroker(t)
	work := t.TempDir()
	began := time.Now()
	second, err := Start(within(t, time.Minute), parse(t, "local"), Options{WorkDir: work, Config: "channel_max = 77"})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("booted in %s", time.Since(began))
	left := tracesOf(second)
	if first.Addr() == second.Addr() || first.Product().Node == second.Product().Node {
		t.Error("they are one")
	}
	addr := second.Addr()
	connection, err := second.Dial(within(t, 10*time.Second), "/")
	if err != nil {
		t.Fatal(err)
	}
	if connection.Config.ChannelMax != 77 {
		t.Errorf("channel_max %d: the configuration was not applied", connection.Config.ChannelMax)
	}
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare("stays", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := second.Pause(within(t, time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := second.Healthy(within(t, 300*time.Millisecond)); err == nil {
		t.Error("a paused broker is healthy")
	}
	if err := second.Resume(within(t, time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := second.Healthy(within(t, 10*time.Second)); err != nil {
		t.Error(err)
	}
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	began = time.Now()
	if err := second.Kill(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	t.Logf("killed in %s", time.Since(began))
	<-closed
	if err := second.Healthy(within(t, 5*time.Second)); err == nil {
		t.Error("a killed broker is healthy")
	}
	began = time.Now()
	if err := second.Restart(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	t.Logf("started again in %s", time.Since(began))
	if second.Addr() != addr {
		t.Errorf("it moved from %s to %s", addr, second.Addr())
	}
	queues, err := second.Queues(within(t, 5*time.Second), "/")
	if err != nil || len(queues) != 1 {
		t.Errorf("%+v, %v", queues, err)
	}
	left.Pids = append(left.Pids, tracesOf(second).Pids...)
	for range 2 {
		if err := second.Stop(within(t, 20*time.Second)); err != nil {
			t.Error(err)
		}
	}
	if still := left.left(); len(still) > 0 {
		t.Errorf("left after the stop: %q", still)
	}
	if err := second.Restart(within(t, time.Second)); err == nil {
		t.Error("a stopped broker starts again")
	}
}

func TestLocalBrokerThatFailsToStart(t *testing.T) {
	t.Parallel()
	localBroker(t)
	work := t.TempDir()
	_, err := Start(within(t, time.Minute), parse(t, "local"), Options{WorkDir: work, Config: "no.such.setting = 1"})
	var boot *BootError
	if !errors.As(err, &boot) || len(boot.Log) == 0 || !strings.Contains(err.Error(), "no.such.setting") {
		t.Errorf("%v", err)
	}
	if entries, _ := os.ReadDir(work); len(entries) > 0 {
		t.Errorf("left: %v", entries)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, cancel)
	if _, err := Start(ctx, parse(t, "local"), Options{WorkDir: work}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if entries, _ := os.ReadDir(work); len(entries) > 0 {
		t.Errorf("left: %v", entries)
	}
}

func TestNothingOutlivesAKilledParent(t *testing.T) {
	t.Parallel()
	localBroker(t)
	work := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"=local", "BROKER_TEST_WORK="+work)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var left traces
	if err != nil || json.Unmarshal([]byte(line), &left) != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if still := left.left(); len(still) != 6 {
		t.Errorf("before the kill: %q", still)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	took := eventually(t, 5*time.Second, "nothing is left", func() bool { return len(left.left()) == 0 })
	t.Logf("all gone %s after SIGKILL", took)
	if entries, _ := os.ReadDir(work); len(entries) > 0 {
		t.Errorf("left: %v", entries)
	}
}

func TestInstallationThatIsNotThere(t *testing.T) {
	folder := t.TempDir()
	for value, says := range map[string]string{
		"local:" + filepath.Join(folder, "absent"): "no such file",
		"local:" + folder:                          "no executable rabbitmq-server",
	} {
		_, err := Start(within(t, 5*time.Second), parse(t, value), Options{})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", value, err, says)
		}
	}
}
