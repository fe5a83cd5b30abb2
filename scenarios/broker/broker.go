//go:build unix

package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Provider is where a broker runs.
type Provider string

// The providers.
const (
	ProviderLocal     Provider = "local"
	ProviderContainer Provider = "container"
	ProviderURL       Provider = "url"
)

// Capability is something that not every broker lets parkproof do.
type Capability string

// The capabilities.
const (
	Vhosts     Capability = "vhosts"     // make and delete virtual hosts
	Management Capability = "management" // ask the management HTTP API
	Restart    Capability = "restart"    // stop, kill, pause and start the node
	Configure  Capability = "configure"  // Options.Config and Advanced were applied
	Control    Capability = "control"    // rabbitmqctl
)

// Options says how a broker is started.
type Options struct {
	// Log gets a line of progress; nil drops them.
	Log func(line string)
	// WorkDir is where temporary folders are made; "" is the system's.
	WorkDir string
	// Config is rabbitmq.conf lines after parkproof's own; Advanced is the whole
	// of advanced.config. A broker that already runs cannot take either.
	Config, Advanced string
	// Env is environment of the node, as KEY=value, after parkproof's own.
	Env []string
	// StartTimeout bounds the boot until the broker answers; 0 is
	// DefaultStartTimeout. The pull of an image is not part of it.
	StartTimeout time.Duration
}

// DefaultStartTimeout is many times a boot's 3 to 15 s, for a machine that runs
// several at once.
const DefaultStartTimeout = 2 * time.Minute

const (
	// readyPoll is the pause between two looks at a broker that boots: short
	// beside the seconds of the boot, and cheap.
	readyPoll = 25 * time.Millisecond
	// handshakeLimit bounds one connection attempt where the context has no
	// nearer deadline.
	handshakeLimit = 15 * time.Second
	// heartbeat of parkproof's own connections: short enough to notice a broker
	// that hangs, long enough for one that is paused by a case.
	heartbeat = 30 * time.Second
)

func (o Options) log(format string, args ...any) {
	if o.Log != nil {
		o.Log(fmt.Sprintf(format, args...))
	}
}

func (o Options) startTimeout() time.Duration {
	if o.StartTimeout > 0 {
		return o.StartTimeout
	}
	return DefaultStartTimeout
}

// Product is what runs. Fields that are not known are "".
type Product struct {
	Name     string // "RabbitMQ"
	Version  string // the full version, from the AMQP server-properties
	Platform string // "Erlang/OTP 25.2.3"
	Erlang   string // the full Erlang version, from the management API
	Node     string
	// Image and ImageDigest are a container's: the name asked for, and the id of
	// what ran.
	Image, ImageDigest string
}

// node is what the providers have in common. Its methods are called one at a time.
type node interface {
	// start starts what is not running; it does not wait for readiness.
	start(ctx context.Context) error
	// stop stops the node in an orderly way; kill kills it. Both return once it
	// is gone, and do nothing when it is.
	stop(ctx context.Context) error
	kill(ctx context.Context) error
	pause(ctx context.Context, paused bool) error
	// died is closed when the node that runs has ended; nil where nobody tells.
	died() <-chan struct{}
	access() access
	log(ctx context.Context, lines int) ([]string, error)
	control(ctx context.Context, args []string) (string, error)
	can(Capability) bool
	describe(product *Product)
	// remove stops the node and removes all that it left.
	remove(ctx context.Context) error
}

// Broker is a RabbitMQ broker that answered. Its methods may be called from any
// goroutine.
type Broker struct {
	spec      Spec
	provider  Provider
	options   Options
	owner     Owner
	node      node
	facts     atomic.Pointer[facts] // written at each boot
	transport *http.Transport
	serial    string
	vhosts    atomic.Int64

	running sync.Mutex // serialises what starts and ends the node
	// controlling has one use of rabbitmqctl at a time: each starts an Erlang machine, and many at once keep
	// a small machine from everything else for so long that heartbeats are missed.
	controlling turn
	stopped     bool
}

// facts is what a broker told when it answered.
type facts struct {
	product              Product
	canVhosts, canManage bool
}

// Start starts a broker (or finds the one that runs) and returns when it answers:
// an AMQP handshake has opened its virtual host, and the management API, where
// there is one, has answered. Errors are one line, followed by the end of the
// node's log where the node itself failed.
func Start(ctx context.Context, spec Spec, options Options) (*Broker, error) {
	if spec.Kind == KindAuto {
		resolved, err := Resolve(ctx, spec)
		if err != nil {
			return nil, err
		}
		spec = resolved
	}
	owner, err := Self()
	if err != nil {
		return nil, err
	}
	b := &Broker{
		spec: spec, options: options, owner: owner,
		transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: handshakeLimit}).DialContext,
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     30 * time.Second,
		},
		// Distinguishes brokers of one process; two letters do for a handful.
		serial: rand.Text()[:4],
	}
	switch spec.Kind {
	case KindLocal:
		b.provider = ProviderLocal
		b.node, err = newLocal(spec, options, owner)
	case KindVersion, KindImage:
		b.provider = ProviderContainer
		b.node, err = newContainer(ctx, spec, options, owner)
	case KindURL:
		b.provider = ProviderURL
		b.node, err = newRemote(spec, options)
	default:
		err = fmt.Errorf("--broker %q is of no known kind", spec.String())
	}
	if err != nil {
		return nil, err
	}
	if err := b.boot(ctx); err != nil {
		b.transport.CloseIdleConnections()
		// A start that was given up must leave nothing either.
		patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
		defer cancel()
		if removed := b.node.remove(patient); removed != nil {
			err = errors.Join(err, removed)
		}
		return nil, b.hide(err)
	}
	return b, nil
}

// removeLimit bounds the removal of what a broker left.
const removeLimit = 30 * time.Second

func (b *Broker) hide(err error) error { return b.node.access().redact(err) }

// boot starts the node and waits until it answers. A local node may lose a port
// to another process between the choice and the boot: it is then given others.
func (b *Broker) boot(ctx context.Context) error {
	const attempts = 3
	for attempt := 1; ; attempt++ {
		err := b.bootOnce(ctx)
		mover, moves := b.node.(interface{ move() error })
		if err == nil || attempt == attempts || !moves || !errors.Is(err, errPortTaken) {
			return err
		}
		b.options.log("%s: a port was taken by another process, starting again on others", b.Name())
		if err := mover.move(); err != nil {
			return err
		}
	}
}

func (b *Broker) bootOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, b.options.startTimeout(),
		fmt.Errorf("it did not answer within %s", b.options.startTimeout()))
	defer cancel()
	if err := b.node.start(ctx); err != nil {
		return err
	}
	return b.awaitReady(ctx)
}

// awaitReady polls until the broker answers, its node ends, or the context does.
func (b *Broker) awaitReady(ctx context.Context) error {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	var last error
	for {
		if last = b.probe(ctx); last == nil {
			return nil
		}
		var final *finalError
		if errors.As(last, &final) {
			return last
		}
		select {
		case <-b.node.died():
			return b.failed(ctx, errors.New("its node ended while it started"))
		case <-ctx.Done():
			cause := context.Cause(ctx)
			if errors.Is(cause, context.Canceled) {
				return fmt.Errorf("broker %s: start: %w", b.Name(), cause)
			}
			return b.failed(ctx, fmt.Errorf("%w (last: %w)", cause, last))
		case <-ticker.C:
		}
	}
}

// finalError is an answer that waiting will not change.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// probe asks the broker once, and fills in what it says of itself.
func (b *Broker) probe(ctx context.Context) error {
	attempt, cancel := context.WithTimeout(ctx, handshakeLimit)
	defer cancel()
	access := b.node.access()
	connection, err := dial(attempt, access, access.Vhost)
	if err != nil {
		if b.provider == ProviderURL {
			return &finalError{explain(access, err)}
		}
		return err
	}
	defer connection.Close()
	properties := connection.Properties
	text := func(name string) string { s, _ := properties[name].(string); return s }
	product := Product{Name: text("product"), Version: text("version"), Platform: text("platform")}
	canManage, canVhosts := false, false
	if access.Management != "" {
		overview, err := b.overview(attempt)
		switch {
		case err == nil:
			canManage = true
			product.Erlang, product.Node = overview.ErlangVersion, overview.Node
			canVhosts, err = b.isAdministrator(attempt)
			if err != nil {
				return err
			}
		case b.provider == ProviderURL:
			return &finalError{fmt.Errorf("broker %s: its management API at %s: %w", b.Name(), access.Management, err)}
		default:
			return err
		}
	}
	b.node.describe(&product)
	b.facts.Store(&facts{product: product, canManage: canManage, canVhosts: canVhosts})
	return nil
}

// failed is an error with the end of the node's log.
func (b *Broker) failed(ctx context.Context, cause error) error {
	const tail = 200 // a failed boot ends with a long crash report
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	lines, err := b.node.log(reading, tail)
	if err != nil || len(lines) == 0 {
		return fmt.Errorf("broker %s: %w", b.Name(), cause)
	}
	failure := &BootError{Broker: b.Name(), Err: cause, Log: lastWords(lines)}
	if portTaken(lines) {
		failure.Err = fmt.Errorf("%w: %w", errPortTaken, cause)
	}
	return failure
}

// Name is the --broker value as given, passwords hidden.
func (b *Broker) Name() string { return b.spec.String() }

// Spec is what it was started as; auto is resolved.
func (b *Broker) Spec() Spec { return b.spec }

// Provider is where it runs.
func (b *Broker) Provider() Provider { return b.provider }

// Version is the broker's full version, for example "3.10.8".
func (b *Broker) Version() string { return b.Product().Version }

// Product is what the broker says of itself.
func (b *Broker) Product() Product { return b.facts.Load().product }

// Owner is this process, as names and labels carry it.
func (b *Broker) Owner() Owner { return b.owner }

// Can says whether the broker has a capability.
func (b *Broker) Can(capability Capability) bool {
	switch capability {
	case Vhosts:
		return b.facts.Load().canVhosts
	case Management:
		return b.facts.Load().canManage
	default:
		return b.node.can(capability)
	}
}

// Addr is the host and port of its AMQP listener. It stays the same across
// restarts.
func (b *Broker) Addr() string { return b.node.access().addr() }

// URL is the AMQP URL of a virtual host. It holds the password.
func (b *Broker) URL(vhost string) string { return b.node.access().url(vhost) }

// User is the name that parkproof and the consumers log in with.
func (b *Broker) User() string { return b.node.access().User }

// Password belongs to User.
func (b *Broker) Password() string { return b.node.access().Password }

// Hide takes the broker's passwords out of a text.
func (b *Broker) Hide(text string) string { return b.node.access().hide(text) }

// DefaultVhost is the one to use where none can be made.
func (b *Broker) DefaultVhost() string { return b.node.access().Vhost }

// ManagementURL is the base of the HTTP API, without credentials and /api; "" where
// there is none.
func (b *Broker) ManagementURL() string { return b.node.access().Management }

// Dial connects straight to the broker, as "parkproof". The context bounds the
// handshake, not the connection.
func (b *Broker) Dial(ctx context.Context, vhost string) (*amqp.Connection, error) {
	access := b.node.access()
	connection, err := dial(ctx, access, vhost)
	if err != nil {
		return nil, access.redact(fmt.Errorf("broker %s: open virtual host %q: %w", b.Name(), vhost, err))
	}
	return connection, nil
}

// Healthy checks that the broker answers and has no alarm.
func (b *Broker) Healthy(ctx context.Context) error {
	connection, err := b.Dial(ctx, b.DefaultVhost())
	if err != nil {
		return err
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return b.hide(fmt.Errorf("broker %s: open a channel: %w", b.Name(), err))
	}
	defer channel.Close()
	if !b.Can(Management) {
		return nil
	}
	if err := b.noAlarm(ctx); err != nil {
		return b.hide(fmt.Errorf("broker %s: %w", b.Name(), err))
	}
	return nil
}

// ErrUnsupported: this broker does not let parkproof do that.
var ErrUnsupported = errors.New("this broker does not allow it")

func (b *Broker) need(capability Capability) error {
	if !b.Can(capability) {
		return fmt.Errorf("broker %s: %s: %w", b.Name(), capability, ErrUnsupported)
	}
	return nil
}

// Restart starts the node again, after an orderly stop if it runs, and returns
// when it answers.
func (b *Broker) Restart(ctx context.Context) error {
	if err := b.need(Restart); err != nil {
		return err
	}
	b.running.Lock()
	defer b.running.Unlock()
	if b.stopped {
		return fmt.Errorf("broker %s: it was stopped", b.Name())
	}
	if err := b.node.stop(ctx); err != nil {
		return b.hide(fmt.Errorf("broker %s: stop: %w", b.Name(), err))
	}
	return b.hide(b.bootOnce(ctx))
}

// Kill kills the node and returns when it is gone. Restart starts it again.
func (b *Broker) Kill(ctx context.Context) error {
	return b.act(ctx, "kill", b.node.kill)
}

// Shutdown stops the node in an orderly way and keeps its data. Restart starts it
// again.
func (b *Broker) Shutdown(ctx context.Context) error {
	return b.act(ctx, "stop", b.node.stop)
}

// Pause stops the node's processes where they stand; Resume continues them.
func (b *Broker) Pause(ctx context.Context) error {
	return b.act(ctx, "pause", func(ctx context.Context) error { return b.node.pause(ctx, true) })
}

// Resume continues a paused node.
func (b *Broker) Resume(ctx context.Context) error {
	return b.act(ctx, "resume", func(ctx context.Context) error { return b.node.pause(ctx, false) })
}

func (b *Broker) act(ctx context.Context, what string, do func(context.Context) error) error {
	if err := b.need(Restart); err != nil {
		return err
	}
	b.running.Lock()
	defer b.running.Unlock()
	if err := do(ctx); err != nil {
		return b.hide(fmt.Errorf("broker %s: %s: %w", b.Name(), what, err))
	}
	return nil
}

// LogTail is the last n lines of the broker's log, passwords hidden; none where it
// cannot be read.
func (b *Broker) LogTail(ctx context.Context, n int) ([]string, error) {
	lines, err := b.node.log(ctx, n)
	if err != nil {
		return nil, b.hide(fmt.Errorf("broker %s: read its log: %w", b.Name(), err))
	}
	for i := range lines {
		lines[i] = b.Hide(lines[i])
	}
	return lines, nil
}

// Ctl runs rabbitmqctl against the node and returns what it printed.
func (b *Broker) Ctl(ctx context.Context, args ...string) (string, error) {
	if err := b.need(Control); err != nil {
		return "", err
	}
	done, err := b.controlling.take(ctx)
	if err != nil {
		return "", fmt.Errorf("broker %s: rabbitmqctl %s: %w", b.Name(), firstOf(args), err)
	}
	defer done()
	out, err := b.node.control(ctx, args)
	if err != nil {
		return out, b.hide(fmt.Errorf("broker %s: rabbitmqctl %s: %w", b.Name(), firstOf(args), err))
	}
	return out, nil
}

func firstOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// Stop ends the broker and removes what it left: the node, its folder or its
// container. A broker that already ran goes on. Stopping twice is allowed.
func (b *Broker) Stop(ctx context.Context) error {
	b.running.Lock()
	defer b.running.Unlock()
	if b.stopped {
		return nil
	}
	b.transport.CloseIdleConnections()
	if err := b.node.remove(ctx); err != nil {
		return b.hide(fmt.Errorf("broker %s: remove: %w", b.Name(), err))
	}
	b.stopped = true
	return nil
}
