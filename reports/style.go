package reports

import (
	"os"

	"golang.org/x/term"
)

// Style is how text for a person is laid out.
type Style struct {
	// Color says that colours may be used.
	Color bool
	// Width is the number of columns that text is broken to fit; 0 breaks nothing.
	Width int
}

// StyleFor is the style that suits a file: colours and the width of the window on a terminal,
// neither elsewhere. Colours are also left out where NO_COLOR is set to anything
// (https://no-color.org) or TERM is dumb.
func StyleFor(f *os.File) Style {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return Style{}
	}
	style := Style{Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(fd); err == nil {
		style.Width = width
	}
	return style
}

// Colours, as parameters of the control sequence that selects them (ECMA-48, 8.3.117).
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// paint colours a text, where the style has colours.
func (s Style) paint(color, text string) string {
	if !s.Color || text == "" || color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// color is the colour that a verdict is shown in; empty for none.
func (v Verdict) color() string {
	switch v {
	case Passed:
		return green
	case Failed, Fixed:
		return red
	case Broken, Unknown:
		return yellow
	default:
		return dim
	}
}
