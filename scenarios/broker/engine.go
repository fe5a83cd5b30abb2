//go:build unix

package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

const (
	// pingLimit bounds the question whether an engine is there at all.
	pingLimit = time.Second
	// probeLimit bounds the question whether a registry answers. Together with
	// the ping and a listing it keeps Resolve under 3 s.
	probeLimit = 1500 * time.Millisecond
	// imageLabel marks an image as usable by parkproof, whatever its name.
	imageLabel = "parkproof.broker=rabbitmq"
	// ownerLabel is a container's owner.
	ownerLabel = "parkproof.owner"
	// ryukVariable switches testcontainers' reaper off.
	ryukVariable = "TESTCONTAINERS_RYUK_DISABLED"
)

// errNoEngine: no Docker engine answers.
var errNoEngine = errors.New("no Docker engine answers")

// engine is a Docker engine that answered.
type engine struct{ *client.Client }

// quiet: testcontainers introduces itself on stderr otherwise.
var quiet = sync.OnceFunc(func() { tclog.SetDefault(tclog.NewNoopLogger()) })

// findEngine connects to the engine that the environment, the current Docker
// context, or a usual socket names.
func findEngine(ctx context.Context) (engine, error) {
	quiet()
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	options := []client.Opt{client.FromEnv}
	if os.Getenv(client.EnvOverrideHost) == "" {
		if host := engineHost(); host != "" {
			options = append(options, client.WithHost(host))
		}
	}
	docker, err := client.New(options...)
	if err != nil {
		return engine{}, fmt.Errorf("%w: %w", errNoEngine, err)
	}
	if _, err := docker.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		docker.Close()
		return engine{}, fmt.Errorf("%w: %w", errNoEngine, oneLine(err))
	}
	return engine{docker}, nil
}

// engineHost is the current Docker context's endpoint, or a socket that is there;
// "" leaves it to the client's default.
func engineHost() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	if host := contextHost(filepath.Join(home, ".docker"), os.Getenv("DOCKER_CONTEXT")); host != "" {
		return host
	}
	for _, socket := range []string{
		"/var/run/docker.sock",
		filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "docker.sock"), // rootless
		filepath.Join(home, ".docker", "run", "docker.sock"),       // Docker Desktop
	} {
		if info, err := os.Stat(socket); err == nil && info.Mode()&os.ModeSocket != 0 {
			return "unix://" + socket
		}
	}
	return ""
}

// contextHost reads a Docker context from the client's folder; "" where there is
// none but the default.
func contextHost(folder, name string) string {
	if name == "" {
		var config struct {
			CurrentContext string `json:"currentContext"`
		}
		text, err := os.ReadFile(filepath.Join(folder, "config.json"))
		if err != nil || json.Unmarshal(text, &config) != nil {
			return ""
		}
		name = config.CurrentContext
	}
	if name == "" || name == "default" {
		return ""
	}
	// The client keeps a context in a folder named by the hash of its name.
	sum := sha256.Sum256([]byte(name))
	text, err := os.ReadFile(filepath.Join(folder, "contexts", "meta", hex.EncodeToString(sum[:]), "meta.json"))
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	if err != nil || json.Unmarshal(text, &meta) != nil {
		return ""
	}
	return meta.Endpoints["docker"].Host
}

// imageState is what an engine can say about an image.
type imageState int

const (
	imageHere        imageState = iota
	imagePullable               // its registry answers and has it
	imageAbsent                 // its registry answers and has it not
	imageUnreachable            // its registry does not answer
)

// look asks for an image, its registry within the limit. The engine itself asks,
// so its mirrors and proxies count.
func (e engine) look(ctx context.Context, image string, limit time.Duration) (imageState, error) {
	_, err := e.ImageInspect(ctx, image)
	if err == nil {
		return imageHere, nil
	}
	if !cerrdefs.IsNotFound(err) {
		return imageAbsent, fmt.Errorf("look for image %s: %w", image, oneLine(err))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err = e.DistributionInspect(ctx, image, client.DistributionInspectOptions{})
	return imageStateOf(err), oneLine(err)
}

// imageStateOf reads a registry's answer. Registries answer "denied" for what is
// not there, so that private names stay private.
func imageStateOf(err error) imageState {
	switch {
	case err == nil:
		return imagePullable
	case cerrdefs.IsNotFound(err), cerrdefs.IsInvalidArgument(err),
		cerrdefs.IsUnauthorized(err), cerrdefs.IsPermissionDenied(err),
		strings.Contains(err.Error(), "manifest unknown"), strings.Contains(err.Error(), "repository does not exist"):
		return imageAbsent
	}
	return imageUnreachable
}

// usable lists the images here that a broker can be made of, the best first.
func (e engine) usable(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	official, err := e.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).Add("reference", "rabbitmq:*-management*")})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", oneLine(err))
	}
	labelled, err := e.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).Add("label", imageLabel)})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", oneLine(err))
	}
	var first, second []string
	for _, image := range official.Items {
		for _, tag := range image.RepoTags {
			if strings.HasPrefix(tag, "rabbitmq:") {
				first = append(first, tag)
			}
		}
	}
	for _, image := range labelled.Items {
		second = append(second, image.RepoTags...)
	}
	slices.SortFunc(first, newestFirst)
	slices.SortFunc(second, newestFirst)
	return append(first, second...), nil
}

// newestFirst orders image names by the version that their tags begin with.
func newestFirst(a, b string) int {
	if order := compareVersions(tagVersion(b), tagVersion(a)); order != 0 {
		return order
	}
	return strings.Compare(a, b)
}

// tagVersion is "4.3" of rabbitmq:4.3-management.
func tagVersion(image string) string {
	tag := image[strings.LastIndexByte(image, ':')+1:]
	version, _, _ := strings.Cut(tag, "-")
	return version
}

// pull fetches an image and reports its progress as lines.
func (e engine) pull(ctx context.Context, image string, options Options) error {
	options.log("pulling image %s", image)
	response, err := e.ImagePull(ctx, image, client.ImagePullOptions{})
	if err != nil {
		return fmt.Errorf("pull image %s: %w", image, oneLine(err))
	}
	defer response.Close()
	layers := map[string]bool{} // id: complete
	for message, err := range response.JSONMessages(ctx) {
		if err == nil && message.Error != nil {
			err = message.Error
		}
		if err != nil {
			return fmt.Errorf("pull image %s: %w", image, oneLine(err))
		}
		switch message.Status {
		case "Pulling fs layer":
			layers[message.ID] = false
		case "Pull complete", "Already exists":
			layers[message.ID] = true
			complete := 0
			for _, isComplete := range layers {
				if isComplete {
					complete++
				}
			}
			options.log("pulling image %s: %d of %d layers", image, complete, len(layers))
		}
	}
	return nil
}

// ensure makes sure that the image of a spec is here, and returns the name to use.
func (e engine) ensure(ctx context.Context, spec Spec, options Options) (string, error) {
	// A pull may take its time, and so may a slow registry's answer.
	const patience = 10 * time.Second
	state, err := e.look(ctx, spec.Image, patience)
	switch state {
	case imageHere:
		return spec.Image, nil
	case imagePullable:
		return spec.Image, e.pull(ctx, spec.Image, options)
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if spec.Kind == KindVersion {
		usable, err := e.usable(ctx)
		if err != nil {
			return "", err
		}
		for _, image := range usable {
			if tagVersion(image) == tagVersion(spec.Image) {
				options.log("image %s is not to be had; using %s", spec.Image, image)
				return image, nil
			}
		}
	}
	if state == imageAbsent {
		return "", fmt.Errorf("broker %s: there is no image %s, neither here nor in its registry: check its name and tag (%w)", spec, spec.Image, err)
	}
	return "", fmt.Errorf("broker %s: image %s is not here and its registry does not answer: run docker pull %s where it can be reached, or docker load it (%w)", spec, spec.Image, spec.Image, err)
}

// settleReaper decides whether testcontainers' reaper runs, before testcontainers
// first reads its configuration: only where its image can be had. What the user
// decided stays. Without it, what a killed run left is swept by the next.
func (e engine) settleReaper(ctx context.Context) error {
	if os.Getenv(ryukVariable) != "" {
		return nil
	}
	prefix := os.Getenv("TESTCONTAINERS_HUB_IMAGE_NAME_PREFIX")
	if prefix != "" {
		prefix = strings.TrimSuffix(prefix, "/") + "/"
	}
	//lint:ignore SA1019 There is no other way to ask for the name of its image.
	reaper := testcontainers.ReaperDefaultImage
	state, _ := e.look(ctx, prefix+reaper, probeLimit)
	if state == imageHere || state == imagePullable {
		return nil
	}
	return os.Setenv(ryukVariable, "true")
}

// sharesNetwork: the engine's default bridge is an interface here, so what the
// engine publishes on its loopback interface is on ours, even where this process
// looks as if it ran in a container.
func (e engine) sharesNetwork(ctx context.Context) bool {
	bridge, err := e.NetworkInspect(ctx, "bridge", client.NetworkInspectOptions{})
	if err != nil {
		return false
	}
	there, err := net.InterfaceByName(bridge.Network.Options["com.docker.network.bridge.name"])
	if err != nil {
		return false
	}
	addresses, err := there.Addrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(addresses, func(address net.Addr) bool {
		own, err := netip.ParsePrefix(address.String())
		return err == nil && slices.ContainsFunc(bridge.Network.IPAM.Config, func(config network.IPAMConfig) bool {
			return config.Subnet.Contains(own.Addr())
		})
	})
}

// oneLine flattens an engine's message.
func oneLine(err error) error {
	if err == nil {
		return nil
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if text == err.Error() {
		return err
	}
	return &redacted{text: text, cause: err}
}
