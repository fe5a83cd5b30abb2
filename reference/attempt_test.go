package reference

import (
	"math"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestAttemptOf(t *testing.T) {
	for name, c := range map[string]struct {
		value any
		want  int64
	}{
		"int8":          {int8(2), 2},
		"int16":         {int16(300), 300},
		"int32":         {int32(70000), 70000},
		"int64":         {int64(1 << 40), 1 << 40},
		"int":           {int(3), 3},
		"uint8":         {uint8(200), 200},
		"uint16":        {uint16(65535), 65535},
		"uint32":        {uint32(math.MaxUint32), math.MaxUint32},
		"uint64":        {uint64(5), 5},
		"uint64 huge":   {uint64(math.MaxUint64), math.MaxInt64},
		"uint":          {uint(6), 6},
		"one":           {int32(1), 1},
		"zero":          {int32(0), 1},
		"negative":      {int64(-4), 1},
		"most negative": {int64(math.MinInt64), 1},
		"string":        {"3", 1},
		"float":         {float64(3), 1},
		"float32":       {float32(3), 1},
		"bool":          {true, 1},
		"bytes":         {[]byte("3"), 1},
		"decimal":       {amqp.Decimal{Value: 3}, 1},
		"time":          {time.Unix(3, 0), 1},
		"table":         {amqp.Table{"n": int32(3)}, 1},
		"list":          {[]any{int32(3)}, 1},
		"nil":           {nil, 1},
	} {
		if got := attemptOf(amqp.Table{"x-attempt": c.value}, "x-attempt"); got != c.want {
			t.Errorf("%s: attempt %d, want %d", name, got, c.want)
		}
	}
	if got := attemptOf(nil, "x-attempt"); got != 1 {
		t.Errorf("no headers: attempt %d, want 1", got)
	}
	if got := attemptOf(amqp.Table{"x-death": []any{amqp.Table{"count": int64(7)}}}, "x-attempt"); got != 1 {
		t.Errorf("x-death alone: attempt %d, want 1", got)
	}
}
