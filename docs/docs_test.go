// Package docs holds pages for users. Its tests keep them true to the code.
package docs

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parkproof/parkproof/reports"
	"github.com/parkproof/parkproof/scenarios/adapter/protocol"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sections returns a page's text by heading. What stands above the first has the heading "".
func sections(page string) map[string]string {
	all, heading, fenced := map[string]string{}, "", false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if !fenced && strings.HasPrefix(line, "#") {
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
		all[heading] += line
	}
	return all
}

// fields returns a type's JSON names, and the types of structs below it.
func fields(t reflect.Type) (names []string, below []reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		ft := f.Type
		for ft.Kind() == reflect.Slice || ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		if f.Anonymous {
			n, b := fields(ft)
			names, below = append(names, n...), append(below, b...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		names = append(names, name)
		if ft.Kind() == reflect.Struct && ft.PkgPath() == t.PkgPath() {
			below = append(below, ft)
		}
	}
	return names, below
}

// documented returns the names that a section's tables explain: each is the first cell of a row.
func documented(section string) []string {
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1) {
		names = append(names, m[1])
	}
	return names
}

func TestRunJSONHasEveryField(t *testing.T) {
	page := sections(read(t, "run-json.md"))
	types := []reflect.Type{reflect.TypeFor[reports.Run]()}
	for seen := 0; seen < len(types); seen++ {
		typ := types[seen]
		heading := typ.Name()
		if heading == "Run" {
			heading = "The run"
		}
		names, below := fields(typ)
		got := documented(page[heading])
		for _, name := range names {
			if !slices.Contains(got, name) {
				t.Errorf("%s: the field %q is not on the page, under %q", typ, name, heading)
			}
		}
		for _, name := range got {
			if !slices.Contains(names, name) {
				t.Errorf("the page has %q under %q, which %s has not", name, heading, typ)
			}
		}
		for _, b := range below {
			if !slices.Contains(types, b) {
				types = append(types, b)
			}
		}
	}
	if len(types) != 16 {
		t.Errorf("%d types were looked at, want 16: %v", len(types), types)
	}
}

func TestRunJSONHasEveryVerdictAndExitCode(t *testing.T) {
	page := sections(read(t, "run-json.md"))
	var want []string
	for _, v := range reports.Verdicts() {
		want = append(want, string(v))
	}
	if got := documented(page["Verdicts"]); !slices.Equal(sorted(got), sorted(want)) {
		t.Errorf("the page has the verdicts %v, want %v", got, want)
	}
	for _, code := range []int{reports.ExitPassed, reports.ExitFailed, reports.ExitUnknown, reports.ExitBroken, reports.ExitUsage} {
		if !strings.Contains(page["Exit codes"], "\n| "+strconv.Itoa(code)+" |") {
			t.Errorf("the exit code %d is not on the page", code)
		}
	}
	if !strings.Contains(page["The run"], "`"+reports.Schema+"`") {
		t.Errorf("the schema %s is not on the page", reports.Schema)
	}
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

// messages are the types of the protocol.
func messages() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[protocol.Request](), reflect.TypeFor[protocol.Line](), reflect.TypeFor[protocol.Ready](),
		reflect.TypeFor[protocol.Conventions](), reflect.TypeFor[protocol.Consumed](), reflect.TypeFor[protocol.Encoded](),
	}
}

func TestProtocolPageHasEveryField(t *testing.T) {
	page := read(t, "adapter-protocol.md")
	var all []string
	for _, typ := range messages() {
		names, _ := fields(typ)
		all = append(all, names...)
		for _, name := range names {
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("%s: the field %q is not explained on the page", typ, name)
			}
			if !strings.Contains(page, `"`+name+`"`) && typ != reflect.TypeFor[protocol.Conventions]() {
				t.Errorf("%s: the field %q is in no example", typ, name)
			}
		}
	}
	all = append(all, constants(t)...)
	for _, name := range documented(page) {
		if !slices.Contains(all, name) {
			t.Errorf("the page explains %q, which the protocol does not have", name)
		}
	}
	conventions, _ := fields(reflect.TypeFor[protocol.Conventions]())
	if got := documented(sections(page)["Conventions"]); !slices.Equal(sorted(got), sorted(conventions)) {
		t.Errorf("under Conventions are %v, want %v", got, conventions)
	}
}

// constants are the values of the protocol's constants that are strings: verbs, verdicts, ways to
// express them, capabilities, events and variables.
func constants(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../scenarios/adapter/protocol/protocol.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for _, v := range spec.Values {
			if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && s != "" {
					values = append(values, s)
				}
			}
		}
		return true
	})
	return values
}

func TestProtocolPageHasEveryConstant(t *testing.T) {
	page := read(t, "adapter-protocol.md")
	values := constants(t)
	if len(values) < 30 {
		t.Fatalf("only %d constants were found: %v", len(values), values)
	}
	for _, v := range values {
		if !strings.Contains(page, "`"+v+"`") {
			t.Errorf("%q is not on the page", v)
		}
	}
}

func TestProtocolExamplesAreOfTheProtocol(t *testing.T) {
	page := read(t, "adapter-protocol.md")
	verbs := map[int]string{} // of the requests, by id: they tell what an answer holds
	n := 0
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			n++
			if strings.Contains(line, `"do"`) {
				var r protocol.Request
				strict(t, line, &r)
				verbs[r.ID] = r.Do
				continue
			}
			var l protocol.Line
			strict(t, line, &l)
			if l.Re == 0 || l.OK == nil {
				continue
			}
			switch verbs[l.Re] {
			case protocol.DoInit:
				strict(t, string(l.OK), &protocol.Ready{})
			case protocol.DoConsume:
				strict(t, string(l.OK), &protocol.Consumed{})
			case protocol.DoEncode:
				strict(t, string(l.OK), &protocol.Encoded{})
			case protocol.DoStop, protocol.DoClose:
				strict(t, string(l.OK), &struct{}{})
			default:
				t.Errorf("an answer to no request: %s", line)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d examples were found", n)
	}
}

// strict decodes JSON that may have no field that the type has not.
func strict(t *testing.T, text string, into any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Errorf("%s: %v", strings.TrimSpace(text), err)
	}
}
