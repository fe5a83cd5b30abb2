package frame

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestSecretShowsNowhere(t *testing.T) {
	m := &ConnectionStartOk{Mechanism: "PLAIN", Response: "\x00user\x00hunter2"}
	marshalled, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{string(marshalled), m.Response.String(), fmt.Sprint(m.Response)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, m), fmt.Sprintf(verb, *m), fmt.Sprintf(verb, m.Response))
	}
	for _, text := range texts {
		if strings.Contains(text, "hunter2") || strings.Contains(strings.ToLower(text), "68756e74657232") {
			t.Errorf("shown: %s", text)
		}
	}
	if !strings.Contains(texts[0], redacted) || !strings.Contains(fmt.Sprintf("%+v", m), redacted) {
		t.Errorf("not marked as redacted: %s, %+v", texts[0], m)
	}
	if string(m.Response) != "\x00user\x00hunter2" {
		t.Error("not to be had by conversion either")
	}
}
