package reports

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// unprintable stands in a report for a character that must not reach a terminal or an XML file.
const unprintable = '\uFFFD'

// longestControl is how many characters of a string that a control sequence opens (a window
// title, a link) are looked at for its end. Real ones are shorter; a longer one is taken for text,
// so that an opener without an end cannot make evidence vanish.
const longestControl = 4096

// Plain makes a text from outside safe to print: terminal control sequences are taken out, and
// other control characters, and those that reverse the direction of writing, are replaced by
// U+FFFD. Newlines and tabs stay.
func Plain(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || hidden(r) }) {
		return s
	}
	in := []rune(strings.ReplaceAll(s, "\r\n", "\n"))
	out := make([]rune, 0, len(in))
	for i := 0; i < len(in); {
		if n := sequence(in[i:]); n > 0 {
			i += n
			continue
		}
		r := in[i]
		if hidden(r) {
			r = unprintable
		}
		out = append(out, r)
		i++
	}
	return string(out)
}

// hidden says whether a character acts on whatever shows it, instead of being shown.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case unicode.IsControl(r): // C0, DEL and C1
		return true
	case r == '\u2028' || r == '\u2029': // separators of lines and paragraphs
		return true
	case r == '\u061C', r == '\u200E', r == '\u200F', r >= '\u202A' && r <= '\u202E', r >= '\u2066' && r <= '\u2069':
		return true // direction of writing
	}
	return false
}

// sequence returns the length of the terminal control sequence that the text begins with, or 0.
// Its forms are those of ECMA-48, sections 5.3, 5.4 and 5.6.
func sequence(in []rune) int {
	var kind rune
	n := 1
	switch {
	case in[0] == '\x1b' && len(in) == 1:
		return 1
	case in[0] == '\x1b':
		kind, n = in[1], 2
	case in[0] >= '\u0080' && in[0] <= '\u009F': // C1: ESC and the character 0x40 below, in one
		kind = in[0] - 0x40
	default:
		return 0
	}
	span := func(from, to rune) {
		for n < len(in) && in[n] >= from && in[n] <= to {
			n++
		}
	}
	switch {
	case kind == '[': // parameters, intermediates, one final
		span('0', '?')
		span(' ', '/')
		if n < len(in) && in[n] >= '@' && in[n] <= '~' {
			n++
		}
		return n
	case kind == ']' || kind == 'P' || kind == 'X' || kind == '^' || kind == '_': // a string, to its terminator
		for end := n; end < len(in) && end < longestControl; end++ {
			switch {
			case in[end] == '\a' || in[end] == '\u009C':
				return end + 1
			case in[end] == '\x1b' && end+1 < len(in) && in[end+1] == '\\':
				return end + 2
			}
		}
		return n
	case in[0] != '\x1b':
		return 0 // another C1 control, which is replaced
	case kind >= ' ' && kind <= '/': // intermediates, one final
		span(' ', '/')
		if n < len(in) && in[n] >= '0' && in[n] <= '~' {
			n++
		}
		return n
	case kind >= '0' && kind <= '~':
		return n
	default:
		return 1 // ESC before what it does not go with
	}
}

// OneLine is Plain, with every run of white space made one space.
func OneLine(s string) string { return strings.Join(strings.Fields(Plain(s)), " ") }

// credentials are the user and password in a URL.
var credentials = regexp.MustCompile(`(\w+://[^\s:/@]*):[^\s/]*@`)

// Redact replaces the passwords of URLs in a text by ***.
func Redact(s string) string { return credentials.ReplaceAllString(s, "$1:***@") }

// outside is a text from outside as reports print it: safe, and without passwords.
func outside(s string) string { return Redact(Plain(s)) }

// outsideLine is such a text in one line.
func outsideLine(s string) string { return Redact(OneLine(s)) }

// wrap breaks a text into lines of at most width characters at its spaces, and at its newlines.
// Words that are longer stay whole, so that they can be copied. A width of 0 or less breaks at
// newlines only.
func wrap(text string, width int) []string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		line = strings.TrimRight(strings.ReplaceAll(line, "\t", "    "), " ")
		for width > 0 && utf8.RuneCountInString(line) > width {
			cut := breakAt(line, width)
			if cut < 0 {
				break
			}
			lines = append(lines, strings.TrimRight(line[:cut], " "))
			line = strings.TrimLeft(line[cut:], " ")
		}
		lines = append(lines, line)
	}
	return lines
}

// breakAt returns where to break a line that is too long: at its last space that is followed by
// another word and leaves at most width characters before it, else at its first, else -1.
func breakAt(line string, width int) int {
	best, col, started := -1, 0, false
	for i, r := range line {
		if r == ' ' && started { // not in the indentation
			if col > width && best >= 0 {
				return best
			}
			best = i
			if col > width {
				return best
			}
		}
		started = started || r != ' '
		col++
	}
	return best
}

// pad fills a text with spaces to a width in characters.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}
