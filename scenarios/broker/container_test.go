//go:build unix

package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// usableImage is an image to test with; it skips where there is none.
func usableImage(t *testing.T) (engine, string) {
	t.Helper()
	docker, err := findEngine(within(t, 5*time.Second))
	if err != nil {
		t.Skipf("LOUD: no container is tested here: %v", err)
	}
	t.Cleanup(func() { docker.Close() })
	images, err := docker.usable(within(t, 5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if len(images) == 0 {
		t.Skip("LOUD: no container is tested here: no image rabbitmq:*-management or with the label " + imageLabel + " (make one with .ci/image)")
	}
	// The oldest: it has the fewest features to lean on.
	return docker, images[len(images)-1]
}

func TestContainer(t *testing.T) {
	t.Parallel()
	docker, image := usableImage(t)
	began := time.Now()
	b, err := Start(within(t, 3*time.Minute), parse(t, "image:"+image), Options{Log: func(line string) { t.Log(line) }, Config: "channel_max = 77"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Stop(context.Background())
	t.Logf("%s booted in %s: %+v", image, time.Since(began), b.Product())
	node := b.node.(*boxed)
	id := node.container().GetContainerID()
	if b.Product().Image != image || !strings.HasPrefix(b.Product().ImageDigest, "sha256:") || b.Provider() != ProviderContainer {
		t.Errorf("%s, %+v", b.Provider(), b.Product())
	}
	there, err := docker.ContainerInspect(within(t, 5*time.Second), id, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for port, bindings := range there.Container.NetworkSettings.Ports {
		for _, binding := range bindings {
			if !binding.HostIP.IsLoopback() {
				t.Errorf("port %s is published on %s", port, binding.HostIP)
			}
		}
	}
	if there.Container.Config.Labels[ownerLabel] != b.Owner().String() {
		t.Errorf("labels %v", there.Container.Config.Labels)
	}
	connection, err := b.Dial(within(t, 10*time.Second), "/")
	if err != nil {
		t.Fatal(err)
	}
	if connection.Config.ChannelMax != 77 {
		t.Errorf("channel_max %d: the configuration was not applied", connection.Config.ChannelMax)
	}
	connection.Close()
	t.Run("numbers", func(t *testing.T) { checkNumbers(t, b, "classic", "quorum") })
	if out, err := b.Ctl(within(t, 30*time.Second), "eval", "node()."); err != nil || !strings.Contains(out, "rabbit@localhost") {
		t.Errorf("ctl: %q, %v", out, err)
	}
	if lines, err := b.LogTail(within(t, 10*time.Second), 3); err != nil || len(lines) != 3 {
		t.Errorf("%q, %v", lines, err)
	}
	if err := b.Pause(within(t, 10*time.Second)); err != nil {
		t.Error(err)
	}
	if err := b.Resume(within(t, 10*time.Second)); err != nil {
		t.Error(err)
	}
	addr := b.Addr()
	if err := b.Kill(within(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := b.Healthy(within(t, 5*time.Second)); err == nil {
		t.Error("a killed broker is healthy")
	}
	if err := b.Restart(within(t, 2*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if b.Addr() != addr {
		t.Errorf("it moved from %s to %s", addr, b.Addr())
	}
	if err := b.Healthy(within(t, 10*time.Second)); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := b.Stop(within(t, 30*time.Second)); err != nil {
			t.Error(err)
		}
	}
	if _, err := docker.ContainerInspect(within(t, 5*time.Second), id, client.ContainerInspectOptions{}); !cerrdefs.IsNotFound(err) {
		t.Errorf("the container is still there: %v", err)
	}
}

func TestContainersOfTheDeadAreSwept(t *testing.T) {
	t.Parallel()
	docker, image := usableImage(t)
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	other := self
	other.Machine = "0000000000"
	ids := map[string]string{}
	for name, owner := range map[string]Owner{"dead": deadOwner(t), "alive": self, "other machine": other} {
		made, err := docker.ContainerCreate(within(t, 20*time.Second), client.ContainerCreateOptions{Config: &container.Config{
			Image: image, Labels: map[string]string{ownerLabel: owner.String()},
		}})
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = made.ID
		t.Cleanup(func() {
			_, _ = docker.ContainerRemove(context.Background(), made.ID, client.ContainerRemoveOptions{Force: true})
		})
	}
	if _, err := docker.sweep(within(t, 20*time.Second), self); err != nil {
		t.Fatal(err)
	}
	for name, id := range ids {
		_, err := docker.ContainerInspect(within(t, 5*time.Second), id, client.ContainerInspectOptions{})
		if removed := cerrdefs.IsNotFound(err); removed != (name == "dead") {
			t.Errorf("%s: removed %v, %v", name, removed, err)
		}
	}
}

func TestImageThatCannotBeHad(t *testing.T) {
	t.Parallel()
	usableImage(t)
	work := t.TempDir()
	_, err := Start(within(t, time.Minute), parse(t, "image:parkproof/no-such-image:1"), Options{WorkDir: work})
	if err == nil || !strings.Contains(err.Error(), "parkproof/no-such-image:1") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

func TestRegistryAnswers(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want imageState
	}{
		{nil, imagePullable},
		{cerrdefs.ErrNotFound, imageAbsent},
		{cerrdefs.ErrUnauthenticated, imageAbsent},
		{errors.New("Error response from daemon: manifest unknown: manifest unknown"), imageAbsent},
		{errors.New("Get \"https://registry.example/v2/\": dial tcp: lookup registry.example: no such host"), imageUnreachable},
		{context.DeadlineExceeded, imageUnreachable},
	} {
		if got := imageStateOf(tt.err); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.want)
		}
	}
}

func TestPluginsStay(t *testing.T) {
	for enabled, want := range map[string]string{
		"": "[rabbitmq_management].\n",
		"[rabbitmq_management,rabbitmq_prometheus].": "[rabbitmq_management,rabbitmq_prometheus].\n",
		"[ rabbitmq_delayed_message_exchange\n].\n":  "[rabbitmq_delayed_message_exchange,rabbitmq_management].\n",
	} {
		if got := withManagement(enabled); got != want {
			t.Errorf("%q: %q, want %q", enabled, got, want)
		}
	}
}

func TestArgumentsAreJoined(t *testing.T) {
	got := withArguments([]string{"A=1", erlangArguments + "=+S 1:1", "B=2"}, "-sname", "x")
	want := []string{"A=1", "B=2", erlangArguments + "=-rabbit quorum_tick_interval 100 -sname x +S 1:1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestContextOfDocker(t *testing.T) {
	folder := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if host := contextHost(folder, ""); host != "" {
		t.Errorf("no configuration: %s", host)
	}
	write("config.json", `{"currentContext":"colima"}`)
	if host := contextHost(folder, ""); host != "" {
		t.Errorf("no context: %s", host)
	}
	// sha256 of "colima"
	write("contexts/meta/f24fd3749c1368328e2b149bec149cb6795619f244c5b584e844961215dadd16/meta.json",
		`{"Name":"colima","Endpoints":{"docker":{"Host":"unix:///colima.sock"}}}`)
	if host := contextHost(folder, ""); host != "unix:///colima.sock" {
		t.Errorf("the current context's: %q", host)
	}
	if host := contextHost(folder, "default"); host != "" {
		t.Errorf("the default's: %s", host)
	}
}

// fakeEngine answers like an engine whose registry never does.
func fakeEngine(t *testing.T, images string) string {
	t.Helper()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
		case strings.Contains(r.URL.Path, "/distribution/"):
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case strings.HasSuffix(r.URL.Path, "/images/json"):
			if strings.Contains(r.URL.RawQuery, "label") {
				fmt.Fprint(w, images)
			} else {
				fmt.Fprint(w, "[]")
			}
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"no such image"}`)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	return "tcp://" + strings.TrimPrefix(server.URL, "http://")
}

func TestResolve(t *testing.T) {
	empty := t.TempDir()
	// A listener that accepts and never says a word.
	silent, err := net.Listen("tcp", localhost+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, missing := findInstallation("")
	for _, tt := range []struct{ name, host, want string }{
		{"no engine", "unix://" + empty + "/none.sock", "local"},
		{"silent engine", "tcp://" + silent.Addr().String(), "local"},
		{"no image, silent registry", fakeEngine(t, "[]"), "local"},
		{"an image, silent registry", fakeEngine(t, `[{"RepoTags":["mine/rabbit:3.10-management"]},{"RepoTags":["mine/rabbit:4.0-management"]}]`), "image:mine/rabbit:4.0-management"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "local" && missing != nil {
				t.Skipf("LOUD: %v", missing)
			}
			t.Setenv(client.EnvOverrideHost, tt.host)
			began := time.Now()
			spec, err := Resolve(within(t, time.Minute), parse(t, "auto"))
			if err != nil || spec.Value != tt.want {
				t.Errorf("%+v, %v, want %s", spec, err, tt.want)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
	if spec, err := Resolve(within(t, time.Second), parse(t, "4.0")); err != nil || spec.Value != "4.0" {
		t.Errorf("%+v, %v", spec, err)
	}
}

func TestNoEngine(t *testing.T) {
	t.Setenv(client.EnvOverrideHost, "unix://"+t.TempDir()+"/none.sock")
	_, err := Start(within(t, 10*time.Second), parse(t, "4.0"), Options{})
	if !errors.Is(err, errNoEngine) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}
