//go:build unix

package broker

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

const (
	amqpPort       = "5672/tcp"
	managementPort = "15672/tcp"
	// Where every packaging of RabbitMQ for Linux reads its configuration.
	configFile   = "/etc/rabbitmq/rabbitmq.conf"
	advancedFile = "/etc/rabbitmq/advanced.config"
	pluginsFile  = "/etc/rabbitmq/enabled_plugins"
)

// errNoContainer: it was removed.
var errNoContainer = errors.New("its container was removed")

// boxed is a node in a container. Its host ports are chosen here and not by the
// engine, which would choose others at each start.
type boxed struct {
	docker  engine
	options Options
	owner   Owner
	image   string
	digest  string
	command []string // nil: the image's own
	to      access
	bind    netip.Addr

	mu     sync.Mutex // guards what follows
	box    testcontainers.Container
	exited chan struct{} // closed when the container that runs has ended
	cancel context.CancelFunc
}

func newContainer(ctx context.Context, spec Spec, options Options, owner Owner) (node, error) {
	docker, err := findEngine(ctx)
	if err != nil {
		return nil, fmt.Errorf("broker %s: %w: start one, or use --broker local", spec, err)
	}
	b := &boxed{docker: docker, options: options, owner: owner}
	if err := b.prepare(ctx, spec); err != nil {
		docker.Close()
		return nil, err
	}
	return b, nil
}

func (b *boxed) prepare(ctx context.Context, spec Spec) error {
	image, err := b.docker.ensure(ctx, spec, b.options)
	if err != nil {
		return err
	}
	there, err := b.docker.ImageInspect(ctx, image)
	if err != nil {
		return fmt.Errorf("broker %s: look at image %s: %w", spec, image, oneLine(err))
	}
	b.image, b.digest = image, there.ID
	if there.Config == nil || !mentionsServer(append(there.Config.Entrypoint, there.Config.Cmd...)) {
		// An image that was only installed into: say what it runs.
		b.command = []string{"sh", "-c", "exec rabbitmq-server"}
	}
	if err := b.docker.settleReaper(ctx); err != nil {
		return err
	}
	host, err := publishedHost(ctx)
	if err != nil {
		return fmt.Errorf("broker %s: %w", spec, err)
	}
	b.to = access{Host: host, User: "parkproof", Password: rand.Text(), Vhost: "/"}
	b.bind = netip.MustParseAddr(localhost)
	if host == "localhost" || host == localhost || b.docker.sharesNetwork(ctx) {
		b.to.Host = localhost
	} else {
		// The engine is elsewhere: its own loopback would be out of our reach.
		b.bind = netip.IPv4Unspecified()
	}
	return b.choosePorts()
}

// publishedHost is where the engine's published ports are reached.
func publishedHost(ctx context.Context) (host string, err error) {
	defer func() {
		// testcontainers panics where it finds no engine.
		if broken := recover(); broken != nil {
			err = fmt.Errorf("%w: %v", errNoEngine, broken)
		}
	}()
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(tclog.NewNoopLogger()))
	if err != nil {
		return "", oneLine(err)
	}
	defer provider.Close()
	return provider.DaemonHost(ctx)
}

func mentionsServer(command []string) bool {
	return slices.ContainsFunc(command, func(word string) bool { return strings.Contains(word, "rabbitmq") })
}

func (b *boxed) choosePorts() error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	b.to.Port = ports[0]
	b.to.Management = "http://" + net.JoinHostPort(b.to.Host, strconv.Itoa(ports[1]))
	return nil
}

func (b *boxed) config() string {
	// docker logs shows what goes to the console.
	return baseConfig(b.to) + "log.console = true\nlog.console.level = info\n" + b.options.Config + "\n"
}

func (b *boxed) environment() map[string]string {
	env := map[string]string{"RABBITMQ_NODENAME": "rabbit@localhost"}
	for _, pair := range withArguments(b.options.Env) {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	return env
}

// container is the one that was made; nil before and after.
func (b *boxed) container() testcontainers.Container {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.box
}

func (b *boxed) start(ctx context.Context) error {
	box := b.container()
	if box == nil {
		return b.create(ctx)
	}
	state, err := box.State(ctx)
	if err != nil {
		return fmt.Errorf("look at container: %w", oneLine(err))
	}
	if !state.Running {
		if err := box.Start(ctx); err != nil {
			return fmt.Errorf("start container: %w", portError(err))
		}
	}
	b.watch()
	return nil
}

func (b *boxed) create(ctx context.Context) error {
	_, management, _ := net.SplitHostPort(strings.TrimPrefix(b.to.Management, "http://"))
	request := testcontainers.GenericContainerRequest{
		Logger:  tclog.NewNoopLogger(),
		Started: true,
		ContainerRequest: testcontainers.ContainerRequest{
			Image: b.image, Cmd: b.command, Env: b.environment(),
			Name:         folderPrefix + b.owner.String() + "-" + strings.ToLower(rand.Text()[:6]),
			Labels:       map[string]string{ownerLabel: b.owner.String()},
			ExposedPorts: []string{amqpPort, managementPort},
			HostConfigModifier: func(host *container.HostConfig) {
				host.PortBindings = network.PortMap{
					network.MustParsePort(amqpPort):       {{HostIP: b.bind, HostPort: strconv.Itoa(b.to.Port)}},
					network.MustParsePort(managementPort): {{HostIP: b.bind, HostPort: management}},
				}
			},
			LifecycleHooks: []testcontainers.ContainerLifecycleHooks{{
				PostCreates: []testcontainers.ContainerHook{b.configure},
			}},
		},
	}
	box, err := testcontainers.GenericContainer(ctx, request)
	if box != nil {
		b.mu.Lock()
		b.box = box
		b.mu.Unlock()
	}
	if err != nil {
		return fmt.Errorf("run image %s: %w", b.image, portError(err))
	}
	b.watch()
	return nil
}

// configure adds to what the image brings along: its own configuration comes
// first, its plugins stay.
func (b *boxed) configure(ctx context.Context, box testcontainers.Container) error {
	files := []struct{ path, text string }{}
	own, err := readInside(ctx, box, configFile)
	if err != nil {
		return err
	}
	files = append(files, struct{ path, text string }{configFile, own + "\n" + b.config()})
	plugins, err := readInside(ctx, box, pluginsFile)
	if err != nil {
		return err
	}
	files = append(files, struct{ path, text string }{pluginsFile, withManagement(plugins)})
	if b.options.Advanced != "" {
		files = append(files, struct{ path, text string }{advancedFile, b.options.Advanced})
	}
	for _, file := range files {
		// The server runs as a user whose number the image alone knows.
		const everyone = 0o644
		if err := box.CopyToContainer(ctx, []byte(file.text), file.path, everyone); err != nil {
			return fmt.Errorf("write %s: %w", file.path, oneLine(err))
		}
	}
	return nil
}

// readInside reads a file of a container; one that is not there is empty.
func readInside(ctx context.Context, box testcontainers.Container, path string) (string, error) {
	file, err := box.CopyFileFromContainer(ctx, path)
	if cerrdefs.IsNotFound(err) || errors.Is(err, io.EOF) || errors.Is(err, tar.ErrHeader) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, oneLine(err))
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, oneLine(err))
	}
	return string(text), nil
}

var pluginName = regexp.MustCompile(`[a-z][a-z0-9_]*`)

// withManagement adds the management plugin to an enabled_plugins file, which is
// an Erlang list of atoms.
func withManagement(enabled string) string {
	names := pluginName.FindAllString(enabled, -1)
	if !slices.Contains(names, "rabbitmq_management") {
		names = append(names, "rabbitmq_management")
	}
	return "[" + strings.Join(names, ",") + "].\n"
}

// portError marks the engine's message about a port that is taken.
func portError(err error) error {
	err = oneLine(err)
	if portTaken([]string{err.Error()}) {
		return fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return err
}

// watch notices the end of the container.
func (b *boxed) watch() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unwatch()
	ctx, cancel := context.WithCancel(context.Background())
	exited := make(chan struct{})
	b.exited, b.cancel = exited, cancel
	waiting := b.docker.ContainerWait(ctx, b.box.GetContainerID(), client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	go func() {
		select {
		case <-waiting.Result:
			close(exited)
		case <-waiting.Error: // the engine does not tell any more, or nobody asks
		case <-ctx.Done():
		}
	}()
}

// unwatch needs the lock.
func (b *boxed) unwatch() {
	if b.cancel != nil {
		b.cancel()
	}
	b.cancel, b.exited = nil, nil
}

func (b *boxed) died() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.exited
}

// gone waits for the end of the container.
func (b *boxed) gone(ctx context.Context) error {
	waiting := b.docker.ContainerWait(ctx, b.container().GetContainerID(), client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-waiting.Result:
		return nil
	case err := <-waiting.Error:
		return fmt.Errorf("wait for the end of container: %w", oneLine(err))
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *boxed) running(ctx context.Context) (bool, error) {
	box := b.container()
	if box == nil {
		return false, nil
	}
	state, err := box.State(ctx)
	if err != nil {
		return false, fmt.Errorf("look at container: %w", oneLine(err))
	}
	return state.Running, nil
}

// stop asks the server itself first: where a shell or su is the container's first
// process, the engine's signal does not reach it, or not in good order.
func (b *boxed) stop(ctx context.Context) error {
	running, err := b.running(ctx)
	if err != nil || !running {
		return err
	}
	if _, err := b.control(ctx, []string{"stop"}); err != nil {
		b.options.log("rabbitmqctl stop failed, stopping the container: %v", b.to.redact(err))
	}
	grace := stopGrace
	if err := b.container().Stop(ctx, &grace); err != nil {
		return fmt.Errorf("stop container: %w", oneLine(err))
	}
	return b.gone(ctx)
}

func (b *boxed) kill(ctx context.Context) error {
	running, err := b.running(ctx)
	if err != nil || !running {
		return err
	}
	if _, err := b.docker.ContainerKill(ctx, b.container().GetContainerID(), client.ContainerKillOptions{Signal: "SIGKILL"}); err != nil && !cerrdefs.IsConflict(err) {
		return fmt.Errorf("kill container: %w", oneLine(err))
	}
	return b.gone(ctx)
}

func (b *boxed) pause(ctx context.Context, paused bool) error {
	box := b.container()
	if box == nil {
		return errNoContainer
	}
	var err error
	if paused {
		_, err = b.docker.ContainerPause(ctx, box.GetContainerID(), client.ContainerPauseOptions{})
	} else {
		_, err = b.docker.ContainerUnpause(ctx, box.GetContainerID(), client.ContainerUnpauseOptions{})
	}
	return oneLine(err)
}

func (b *boxed) access() access { return b.to }

func (b *boxed) log(ctx context.Context, n int) ([]string, error) {
	box := b.container()
	if box == nil {
		return nil, nil
	}
	logs, err := box.Logs(ctx)
	if err != nil {
		return nil, oneLine(err)
	}
	defer logs.Close()
	text, err := io.ReadAll(logs)
	if err != nil {
		return nil, oneLine(err)
	}
	return lastLines(string(text), n), nil
}

func (b *boxed) control(ctx context.Context, args []string) (string, error) {
	box := b.container()
	if box == nil {
		return "", errNoContainer
	}
	status, output, err := box.Exec(ctx, append([]string{"rabbitmqctl"}, args...), tcexec.Multiplexed())
	if err != nil {
		return "", oneLine(err)
	}
	text, err := io.ReadAll(output)
	if err != nil {
		return "", oneLine(err)
	}
	if status != 0 {
		return string(text), fmt.Errorf("it exited with code %d: %s", status, strings.Join(lastLines(string(text), 3), "; "))
	}
	return string(text), nil
}

func (b *boxed) can(capability Capability) bool {
	return capability == Restart || capability == Configure || capability == Control
}

func (b *boxed) describe(product *Product) {
	product.Image, product.ImageDigest = b.image, b.digest
}

// move removes the container and takes other ports.
func (b *boxed) move() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	if err := b.discard(ctx); err != nil {
		return err
	}
	return b.choosePorts()
}

func (b *boxed) discard(ctx context.Context) error {
	b.mu.Lock()
	b.unwatch()
	box := b.box
	b.box = nil
	b.mu.Unlock()
	if box == nil {
		return nil
	}
	// Killed first: an orderly stop of a node that nobody needs takes seconds.
	_, _ = b.docker.ContainerKill(ctx, box.GetContainerID(), client.ContainerKillOptions{Signal: "SIGKILL"})
	return oneLine(box.Terminate(ctx))
}

func (b *boxed) remove(ctx context.Context) error {
	return errors.Join(b.discard(ctx), b.docker.Close())
}
