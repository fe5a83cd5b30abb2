//go:build unix

package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// DefaultImage is what auto runs where it is here or can be pulled.
const DefaultImage = "rabbitmq:4.3-management"

// Resolve turns auto into what will run: a container where a Docker engine answers
// and an image is here or can be pulled, else the installed server. Every other
// value is returned as it is. It takes less than 3 s whatever the network does.
func Resolve(ctx context.Context, spec Spec) (Spec, error) {
	if spec.Kind != KindAuto {
		return spec, nil
	}
	var tried []string
	image, err := resolveImage(ctx)
	if err == nil {
		if image == DefaultImage {
			return Parse(strings.TrimSuffix(strings.TrimPrefix(image, "rabbitmq:"), "-management"))
		}
		return Parse("image:" + image)
	}
	tried = append(tried, "a container: "+err.Error())
	if _, err = findInstallation(""); err == nil {
		return Parse("local")
	}
	tried = append(tried, "the installed server: "+err.Error())
	if err := ctx.Err(); err != nil {
		return Spec{}, err
	}
	return Spec{}, fmt.Errorf("--broker auto found no broker (%s); to put it right, run: apt-get install rabbitmq-server", strings.Join(tried, "; "))
}

// resolveImage is the image to run.
func resolveImage(ctx context.Context) (string, error) {
	docker, err := findEngine(ctx)
	if err != nil {
		return "", err
	}
	defer docker.Close()
	state, err := docker.look(ctx, DefaultImage, probeLimit)
	if state == imageHere || state == imagePullable {
		return DefaultImage, nil
	}
	usable, listed := docker.usable(ctx)
	if listed != nil {
		return "", listed
	}
	if len(usable) > 0 {
		return usable[0], nil
	}
	if state == imageAbsent {
		return "", fmt.Errorf("there is no image %s: %w", DefaultImage, err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("no answer in time")
	}
	return "", fmt.Errorf("image %s is not here and its registry does not answer: %w", DefaultImage, err)
}
