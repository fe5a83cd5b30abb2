//go:build unix

package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

const (
	// tinyWatermark is a fraction of the machine's memory that no node gets by with: a hundred-thousandth
	// of 64 GB is 640 kB, and a node that idles takes over 50 MB.
	tinyWatermark = "0.00001"
	// alarmPoll is the pause between two looks at the alarms; each look is a start of rabbitmqctl, which
	// takes longer than the alarm (it is set within the change of the watermark, measured on 3.8.9 to 4.3.6).
	alarmPoll = 200 * time.Millisecond
)

// Watermark is a node's setting of vm_memory_high_watermark, as rabbitmqctl takes it.
type Watermark []string

// memory is what a node says of its memory.
type memory struct {
	alarm     bool
	watermark Watermark
}

// RaiseMemoryAlarm lowers the node's memory watermark so far that it sets its alarm, and returns when
// that is set, with the watermark that was there before. The node then takes nothing more from
// connections that publish.
func (b *Broker) RaiseMemoryAlarm(ctx context.Context) (Watermark, error) {
	if err := b.need(Restart); err != nil {
		return nil, err // an alarm is everybody's
	}
	before, err := b.memory(ctx)
	if err != nil {
		return nil, err
	}
	return before.watermark, b.setWatermark(ctx, Watermark{tinyWatermark}, true)
}

// ClearMemoryAlarm sets the watermark and returns when the alarm is gone.
func (b *Broker) ClearMemoryAlarm(ctx context.Context, w Watermark) error {
	if err := b.need(Restart); err != nil {
		return err
	}
	return b.setWatermark(ctx, w, false)
}

func (b *Broker) setWatermark(ctx context.Context, w Watermark, alarm bool) error {
	if _, err := b.Ctl(ctx, append([]string{"set_vm_memory_high_watermark"}, w...)...); err != nil {
		return err
	}
	ticker := time.NewTicker(alarmPoll)
	defer ticker.Stop()
	for {
		now, err := b.memory(ctx)
		if err != nil || now.alarm == alarm {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("broker %s: wait until its memory alarm is %s: %w", b.Name(), map[bool]string{true: "set", false: "gone"}[alarm], context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// memory asks the node itself: what the management API says of alarms is up to 5 s old.
func (b *Broker) memory(ctx context.Context) (memory, error) {
	out, err := b.Ctl(ctx, "status", "--quiet", "--formatter", "json")
	if err != nil {
		return memory{}, err
	}
	m, err := parseMemory(out)
	if err != nil {
		return m, b.hide(fmt.Errorf("broker %s: look at its memory: %w", b.Name(), err))
	}
	return m, nil
}

// parseMemory reads what rabbitmqctl status prints as JSON.
func parseMemory(out string) (memory, error) {
	var status struct {
		Alarms []struct {
			Resource string `json:"resource"`
		} `json:"alarms"`
		Watermark struct {
			Relative *float64         `json:"relative"`
			Absolute *json.RawMessage `json:"absolute"`
		} `json:"vm_memory_high_watermark_setting"`
	}
	// Warnings may stand before it.
	start := max(0, strings.IndexByte(out, '{'))
	if err := json.NewDecoder(strings.NewReader(out[start:])).Decode(&status); err != nil {
		return memory{}, fmt.Errorf("read what rabbitmqctl printed: %w", err)
	}
	m := memory{}
	for _, alarm := range status.Alarms {
		m.alarm = m.alarm || alarm.Resource == "memory"
	}
	switch w := status.Watermark; {
	case w.Relative != nil:
		m.watermark = Watermark{strconv.FormatFloat(*w.Relative, 'f', -1, 64)}
	case w.Absolute != nil:
		m.watermark = Watermark{"absolute", strings.Trim(string(*w.Absolute), `"`)}
	default:
		return m, errors.New("rabbitmqctl status tells no memory watermark")
	}
	return m, nil
}

// noAlarm asks for memory and disk alarms: by the health check, which looks at the node itself, and where
// the version has none (before 3.8.10) in the statistics, which are up to 5 s old.
func (b *Broker) noAlarm(ctx context.Context) error {
	client, err := b.management(ctx)
	if err != nil {
		return err
	}
	check, err := client.HealthCheckAlarms()
	switch {
	case notFound(err):
		return statisticsHaveNoAlarm(client)
	case err != nil:
		return fmt.Errorf("ask for its alarms: %w", err)
	case !check.Ok():
		for _, alarm := range check.Alarms {
			return fmt.Errorf("node %s has a %s alarm", alarm.Node, alarm.Resource)
		}
		return fmt.Errorf("it has an alarm: %s", check.Reason)
	}
	return nil
}

func statisticsHaveNoAlarm(client *rabbithole.Client) error {
	nodes, err := client.ListNodes()
	if err != nil {
		return fmt.Errorf("list its nodes: %w", err)
	}
	for _, node := range nodes {
		switch {
		case !node.IsRunning:
			return fmt.Errorf("node %s is down", node.Name)
		case node.MemAlarm:
			return fmt.Errorf("node %s has a memory alarm", node.Name)
		case node.DiskFreeAlarm:
			return fmt.Errorf("node %s has a disk alarm", node.Name)
		}
	}
	return nil
}
