//go:build unix

package broker

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// installation is where an installed RabbitMQ's programs are.
type installation struct {
	Server string // the rabbitmq-server script itself, no wrapper
	Ctl    string // rabbitmqctl; "" where there is none
	Epmd   string // Erlang's port mapper daemon
}

// packagedServer is where the packages of Debian and RPM keep the script: what
// they put into PATH is a wrapper that changes to the user rabbitmq.
const packagedServer = "/usr/lib/rabbitmq/bin/rabbitmq-server"

// errNotInstalled: there is no rabbitmq-server here.
var errNotInstalled = errors.New("rabbitmq-server is not installed")

// installHint is the one command that puts it right.
const installHint = "install it (apt-get install rabbitmq-server, or brew install rabbitmq) or give its path: local:PATH"

// findInstallation looks for RabbitMQ; path is local:PATH's, a script or a folder
// that RabbitMQ was unpacked to.
func findInstallation(path string) (installation, error) {
	server, err := findServer(path)
	if err != nil {
		return installation{}, err
	}
	found := installation{Server: server}
	// The script beside the server belongs to the same version.
	if resolved, err := filepath.EvalSymlinks(server); err == nil {
		found.Ctl = executableAt(filepath.Join(filepath.Dir(resolved), "rabbitmqctl"))
	}
	found.Epmd, err = findEpmd()
	if err != nil {
		return installation{}, err
	}
	return found, nil
}

func findServer(path string) (string, error) {
	if path != "" {
		candidates := []string{path, filepath.Join(path, "sbin", "rabbitmq-server"), filepath.Join(path, "rabbitmq-server")}
		for _, candidate := range candidates {
			if script := executableAt(candidate); script != "" {
				return unwrap(script)
			}
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("--broker local:%s: no such file: give the path of rabbitmq-server", path)
		}
		return "", fmt.Errorf("--broker local:%s: no executable rabbitmq-server: give the path of the script, or of the folder that holds sbin/rabbitmq-server", path)
	}
	if script := executableAt(packagedServer); script != "" {
		return script, nil
	}
	// Homebrew's folders are not always in the PATH of a service.
	for _, name := range []string{"rabbitmq-server", "/opt/homebrew/sbin/rabbitmq-server", "/usr/local/sbin/rabbitmq-server", "/opt/rabbitmq/sbin/rabbitmq-server", "/usr/sbin/rabbitmq-server"} {
		if script, err := exec.LookPath(name); err == nil {
			return unwrap(script)
		}
	}
	return "", fmt.Errorf("%w: %s", errNotInstalled, installHint)
}

// unwrap replaces a wrapper that changes the user by the script behind it.
func unwrap(script string) (string, error) {
	text, err := os.ReadFile(script)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", script, err)
	}
	for _, sign := range []string{"su rabbitmq", "runuser", "setpriv"} {
		if bytes.Contains(text, []byte(sign)) {
			if packaged := executableAt(packagedServer); packaged != "" {
				return packaged, nil
			}
			return "", fmt.Errorf("%s changes the user, and the script behind it was not found: give its path: local:PATH", script)
		}
	}
	return script, nil
}

func findEpmd() (string, error) {
	if path, err := exec.LookPath("epmd"); err == nil {
		return path, nil
	}
	for _, pattern := range []string{"/usr/lib/erlang/bin/epmd", "/usr/lib/erlang/erts-*/bin/epmd", "/usr/lib64/erlang/erts-*/bin/epmd", "/usr/local/lib/erlang/erts-*/bin/epmd", "/opt/erlang/lib/erlang/erts-*/bin/epmd", "/opt/homebrew/lib/erlang/erts-*/bin/epmd", "/opt/homebrew/opt/erlang/lib/erlang/erts-*/bin/epmd"} {
		matches, _ := filepath.Glob(pattern)
		for _, match := range matches {
			if path := executableAt(match); path != "" {
				return path, nil
			}
		}
	}
	return "", errors.New("epmd, which comes with Erlang, was not found: put Erlang's bin folder into PATH")
}

// executableAt is the path if an executable file is there, else "".
func executableAt(path string) string {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return ""
	}
	return path
}
