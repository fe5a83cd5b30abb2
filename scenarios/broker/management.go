//go:build unix

package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

// bound gives each request of a client its context, which the library has no
// parameter for, and lets connections be used again.
type bound struct {
	ctx  context.Context
	base http.RoundTripper
}

func (r bound) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(r.ctx)
	request.Close = false
	return r.base.RoundTrip(request)
}

// management is a client of the HTTP API whose requests end with the context.
func (b *Broker) management(ctx context.Context) (*rabbithole.Client, error) {
	access := b.node.access()
	if access.Management == "" {
		return nil, fmt.Errorf("broker %s: %s: %w", b.Name(), Management, ErrUnsupported)
	}
	user, password := access.credentials()
	client, err := rabbithole.NewTLSClient(access.Management, user, password, bound{ctx, b.transport})
	if err != nil {
		return nil, fmt.Errorf("broker %s: its management URL: %w", b.Name(), err)
	}
	return client, nil
}

// done closes the body of an answer that has none worth reading.
func done(response *http.Response, err error) error {
	if response != nil && response.Body != nil {
		response.Body.Close()
	}
	return err
}

func (b *Broker) overview(ctx context.Context) (*rabbithole.Overview, error) {
	client, err := b.management(ctx)
	if err != nil {
		return nil, err
	}
	return client.Overview()
}

// isAdministrator: only an administrator may make virtual hosts.
func (b *Broker) isAdministrator(ctx context.Context) (bool, error) {
	client, err := b.management(ctx)
	if err != nil {
		return false, err
	}
	me, err := client.Whoami()
	if err != nil {
		return false, fmt.Errorf("broker %s: ask who this user is: %w", b.Name(), err)
	}
	return slices.Contains(me.Tags, "administrator"), nil
}

// vhostPrefix begins every virtual host of parkproof's; the owner follows.
const vhostPrefix = "pp-"

// VhostName is a new name for a virtual host of this process.
func (b *Broker) VhostName() string {
	return fmt.Sprintf("%s%s-%s%d", vhostPrefix, b.owner, strings.ToLower(b.serial), b.vhosts.Add(1))
}

// CreateVhost makes a virtual host and gives this user all rights in it. One that
// is there already is kept.
func (b *Broker) CreateVhost(ctx context.Context, name string) error {
	if err := b.need(Vhosts); err != nil {
		return err
	}
	client, err := b.management(ctx)
	if err != nil {
		return err
	}
	if err := done(client.PutVhost(name, rabbithole.VhostSettings{Description: "parkproof"})); err != nil {
		return b.hide(fmt.Errorf("broker %s: make virtual host %s: %w", b.Name(), name, err))
	}
	all := rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"}
	if err := done(client.UpdatePermissionsIn(name, b.User(), all)); err != nil {
		return b.hide(fmt.Errorf("broker %s: grant %s its rights in virtual host %s: %w", b.Name(), b.User(), name, err))
	}
	return nil
}

// DeleteVhost removes a virtual host and all in it. One that is not there is no
// error.
func (b *Broker) DeleteVhost(ctx context.Context, name string) error {
	if err := b.need(Vhosts); err != nil {
		return err
	}
	client, err := b.management(ctx)
	if err != nil {
		return err
	}
	if err := done(client.DeleteVhost(name)); err != nil {
		return b.hide(fmt.Errorf("broker %s: remove virtual host %s: %w", b.Name(), name, err))
	}
	return nil
}

// Exchange is one of a virtual host's.
type Exchange struct {
	Name, Type                    string
	Durable, AutoDelete, Internal bool
	Args                          map[string]any
}

// Exchanges lists a virtual host's exchanges, the predeclared ones too.
func (b *Broker) Exchanges(ctx context.Context, vhost string) ([]Exchange, error) {
	client, err := b.management(ctx)
	if err != nil {
		return nil, err
	}
	found, err := client.ListExchangesIn(vhost)
	if err != nil {
		return nil, b.hide(fmt.Errorf("broker %s: list the exchanges of %s: %w", b.Name(), vhost, err))
	}
	exchanges := make([]Exchange, len(found))
	for i, e := range found {
		exchanges[i] = Exchange{
			Name: e.Name, Type: e.Type, Durable: e.Durable, AutoDelete: bool(e.AutoDelete),
			Internal: e.Internal, Args: e.Arguments,
		}
	}
	return exchanges, nil
}

// Binding routes from an exchange to a queue or an exchange.
type Binding struct {
	Source, Destination string
	// DestinationType is "queue" or "exchange".
	DestinationType string
	Key             string
	Args            map[string]any
}

// Bindings lists a virtual host's bindings, those of the default exchange too.
func (b *Broker) Bindings(ctx context.Context, vhost string) ([]Binding, error) {
	client, err := b.management(ctx)
	if err != nil {
		return nil, err
	}
	found, err := client.ListBindingsIn(vhost)
	if err != nil {
		return nil, b.hide(fmt.Errorf("broker %s: list the bindings of %s: %w", b.Name(), vhost, err))
	}
	bindings := make([]Binding, len(found))
	for i, f := range found {
		bindings[i] = Binding{
			Source: f.Source, Destination: f.Destination, DestinationType: f.DestinationType,
			Key: f.RoutingKey, Args: f.Arguments,
		}
	}
	return bindings, nil
}

// notFound: the API says 404.
func notFound(err error) bool {
	var response rabbithole.ErrorResponse
	return errors.As(err, &response) && response.StatusCode == http.StatusNotFound
}
