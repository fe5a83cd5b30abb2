//go:build unix

package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"
)

// Swept is what was removed.
type Swept struct {
	Vhosts, Containers, Folders []string
}

// stale decides whether a name or label that begins with the prefix belongs to an
// owner that is gone.
func stale(name, prefix string, self Owner, find func(pid int) Presence) bool {
	text, ours := strings.CutPrefix(name, prefix)
	if !ours {
		return false
	}
	owner, valid := ParseOwner(text)
	return valid && owner.DeadTo(self, find)
}

// Sweep removes what killed runs on this machine left: virtual hosts on the
// broker, containers, and temporary folders. What belongs to a living process, or
// to another machine, stays. A nil broker leaves virtual hosts out.
func Sweep(ctx context.Context, b *Broker, options Options) (Swept, error) {
	self, err := Self()
	if err != nil {
		return Swept{}, err
	}
	var swept Swept
	var failures []error
	if b != nil && b.Can(Vhosts) {
		swept.Vhosts, err = b.sweepVhosts(ctx, self)
		failures = append(failures, err)
	}
	if docker, err := findEngine(ctx); err == nil {
		swept.Containers, err = docker.sweep(ctx, self)
		failures = append(failures, err, docker.Close())
	}
	swept.Folders, err = sweepFolders(options.WorkDir, self)
	failures = append(failures, err)
	return swept, errors.Join(failures...)
}

func (b *Broker) sweepVhosts(ctx context.Context, self Owner) ([]string, error) {
	client, err := b.management(ctx)
	if err != nil {
		return nil, err
	}
	vhosts, err := client.ListVhosts()
	if err != nil {
		return nil, b.hide(fmt.Errorf("broker %s: list its virtual hosts: %w", b.Name(), err))
	}
	var removed []string
	for _, vhost := range vhosts {
		if !stale(vhost.Name, vhostPrefix, self, lookUp) {
			continue
		}
		if err := b.DeleteVhost(ctx, vhost.Name); err != nil {
			return removed, err
		}
		removed = append(removed, vhost.Name)
	}
	return removed, nil
}

func (e engine) sweep(ctx context.Context, self Owner) ([]string, error) {
	found, err := e.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", ownerLabel)})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", oneLine(err))
	}
	var removed []string
	for _, box := range found.Items {
		if !stale(box.Labels[ownerLabel], "", self, lookUp) {
			continue
		}
		if _, err := e.ContainerRemove(ctx, box.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			return removed, fmt.Errorf("remove container %s: %w", box.ID[:12], oneLine(err))
		}
		removed = append(removed, strings.TrimPrefix(strings.Join(box.Names, ","), "/"))
	}
	return removed, nil
}

func sweepFolders(parent string, self Owner) ([]string, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, fmt.Errorf("list temporary folders: %w", err)
	}
	var removed []string
	var failures []error
	for _, entry := range entries {
		if !entry.IsDir() || !stale(entry.Name(), folderPrefix, self, lookUp) {
			continue
		}
		path := filepath.Join(parent, entry.Name())
		if err := os.RemoveAll(path); err != nil {
			// Another user's: theirs to sweep.
			if !errors.Is(err, os.ErrPermission) {
				failures = append(failures, fmt.Errorf("remove %s: %w", path, err))
			}
			continue
		}
		removed = append(removed, path)
	}
	return removed, errors.Join(failures...)
}
