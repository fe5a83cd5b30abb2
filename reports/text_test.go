package reports

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestPlain(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"nothing to do", "a message, 1 µs → ok\n\ttabbed", "a message, 1 µs → ok\n\ttabbed"},
		{"colour", "\x1b[1;31mred\x1b[0m", "red"},
		{"clear the screen", "a\x1b[2J\x1b[Hb", "ab"},
		{"private mode", "\x1b[?25lx\x1b[?1049hy", "xy"},
		{"window title, BEL", "\x1b]0;pwned\aok", "ok"},
		{"link, ST", "\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"},
		{"a string without an end keeps the text", "\x1b]0;the evidence", "0;the evidence"},
		{"device control", "\x1bP1$r0m\x1b\\ok", "ok"},
		{"one character", "\x1bcok\x1b7", "ok"},
		{"character set", "\x1b(0lqk", "lqk"},
		{"C1 CSI", "\u009b31mred", "red"},
		{"C1 OSC", "\u009d0;t\u009cok", "ok"},
		{"C1 other", "a\u0085b", "a�b"},
		{"unfinished", "ok\x1b[31", "ok"},
		{"lone escape", "ok\x1b", "ok"},
		{"escape before what it does not go with", "\x1b\x00ok", "�ok"},
		{"NUL, BS, DEL, CR", "a\x00b\bc\x7fd\re", "a�b�c�d�e"},
		{"CRLF", "a\r\nb", "a\nb"},
		{"no UTF-8", "a\x9b31mb\xff", "a�31mb�"},
		{"direction of writing", "abc\u202edef\u2066", "abc�def�"},
		{"line separator", "a\u2028b", "a�b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Plain(tt.in); got != tt.want {
				t.Errorf("Plain(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("\x1b[31mred\x1b]0;t\a\u009b1m\x00")
	f.Add("\x1b]\x1b]\x1bP\u009b\x9b\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		got := Plain(s)
		for _, r := range got {
			if r != '\n' && r != '\t' && unicode.IsControl(r) {
				t.Fatalf("Plain(%q) = %q keeps %q", s, got, r)
			}
		}
		if !utf8.ValidString(got) {
			t.Fatalf("Plain(%q) = %q is no UTF-8", s, got)
		}
		if again := Plain(got); again != got {
			t.Fatalf("Plain is not stable: %q, then %q", got, again)
		}
	})
}

func TestPlainOfManyOpeners(t *testing.T) {
	const many = 5_000
	if got := Plain(strings.Repeat("\x1b]", many) + "ok"); got != "ok" {
		t.Errorf("got %d characters", len(got))
	}
}

func TestOneLine(t *testing.T) {
	if got := OneLine("  a\r\n\tb\x1b[0m  c\n"); got != "a b c" {
		t.Errorf("got %q", got)
	}
}

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"amqp://guest:secret@host/vh":         "amqp://guest:***@host/vh",
		"amqp://guest:p@ss:w@host:5672 down":  "amqp://guest:***@host:5672 down",
		"amqp://host:5672/ and mail a:b@host": "amqp://host:5672/ and mail a:b@host",
		"http://:x@h and amqps://u:y@h":       "http://:***@h and amqps://u:***@h",
	} {
		if got := Redact(in); got != want {
			t.Errorf("Redact(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		in    string
		width int
		want  string
	}{
		{"one two three", 0, "[one two three]"},
		{"one two three", 7, "[one two|three]"},
		{"one two three", 8, "[one two|three]"},
		{"one two three", 3, "[one|two|three]"},
		{"one twothreefour five", 5, "[one|twothreefour|five]"},
		{"twothreefour", 5, "[twothreefour]"},
		{"  indented text stays", 12, "[  indented|text stays]"},
		{"a\tb\n\nc\n", 0, "[a    b||c]"},
		{"äöü äöü", 3, "[äöü|äöü]"},
		{"", 5, "[]"},
	} {
		got := fmt.Sprintf("[%s]", strings.Join(wrap(tt.in, tt.width), "|"))
		if got != tt.want {
			t.Errorf("wrap(%q, %d) = %s, want %s", tt.in, tt.width, got, tt.want)
		}
	}
}
