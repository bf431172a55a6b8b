package lint

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the exported API to testdata/api.txt instead of comparing")

// TestAPI compares what the module exports with testdata/api.txt, so that nobody changes it without meaning to.
func TestAPI(t *testing.T) {
	golden := filepath.Join(root, "testdata", "api.txt")
	got := api(sources(t))
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	for _, line := range missing(want, got) {
		t.Errorf("gone:  %s", line)
	}
	for _, line := range missing(got, want) {
		t.Errorf("new:   %s", line)
	}
	t.Errorf("the exported API is not that of testdata/api.txt. What was released is for ever: keep what programs use. " +
		"If the change is meant, say so in CHANGELOG.md and run: go test ./internal/lint -run TestAPI -rewrite")
}

// api is the text of everything that the public packages export, package by package, without bodies and comments.
func api(parsed tree) []byte {
	decls := make(map[string][]string)
	for _, f := range parsed.files {
		if f.test || within(f.dir, "internal") || f.ast.Name.Name == "main" {
			continue
		}
		for _, decl := range f.ast.Decls {
			decls[f.dir] = append(decls[f.dir], exported(decl)...)
		}
	}
	var out bytes.Buffer
	for _, dir := range slices.Sorted(maps.Keys(decls)) {
		fmt.Fprintf(&out, "package %s\n\n", strings.TrimSuffix(module+"/"+dir, "/."))
		slices.Sort(decls[dir])
		for _, text := range slices.Compact(decls[dir]) { // files for several systems export the same
			fmt.Fprintln(&out, text)
		}
		fmt.Fprintln(&out)
	}
	return out.Bytes()
}

// exported are the exported parts of a declaration, one line each: a function, a constant, a type, a field or method of
// a type.
func exported(decl ast.Decl) []string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
			return []string{text(&ast.FuncDecl{Recv: d.Recv, Name: d.Name, Type: d.Type})}
		}
	case *ast.GenDecl:
		var lines []string
		for i, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					lines = append(lines, typeLines(s)...)
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						lines = append(lines, d.Tok.String()+" "+name.Name+value(d, i))
					}
				}
			}
		}
		return lines
	}
	return nil
}

// value is what the i-th constant or variable of a declaration is. A constant without a value repeats the one above.
func value(d *ast.GenDecl, i int) string {
	first := i
	for first > 0 && d.Tok == token.CONST && len(d.Specs[first].(*ast.ValueSpec).Values) == 0 {
		first--
	}
	spec := d.Specs[first].(*ast.ValueSpec)
	line := ""
	if spec.Type != nil {
		line = " " + text(spec.Type)
	}
	if d.Tok == token.CONST {
		for _, v := range spec.Values {
			line += " = " + text(v)
		}
		if strings.Contains(line, "iota") {
			line += fmt.Sprintf(", iota %d", i)
		}
	}
	return line
}

// typeLines are a type and, of a struct or an interface, what its users can name.
func typeLines(spec *ast.TypeSpec) []string {
	head := "type " + spec.Name.Name
	public := *spec
	public.Doc, public.Comment = nil, nil
	members, kind := &ast.FieldList{}, ""
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		members, kind = typ.Fields, " struct"
	case *ast.InterfaceType:
		members, kind = typ.Methods, " interface"
	default:
		return []string{"type " + text(&public)}
	}
	lines := []string{head + kind}
	for _, member := range members.List {
		typ := strings.TrimPrefix(text(member.Type), "func")
		if kind == " struct" {
			typ = " " + text(member.Type)
		}
		for _, name := range member.Names {
			switch {
			case name.IsExported():
				lines = append(lines, head+kind+", "+name.Name+typ)
			case kind == " interface":
				lines = append(lines, head+kind+", unexported methods")
			}
		}
		if embedded := strings.TrimPrefix(text(member.Type), "*"); len(member.Names) == 0 && !isLower(embedded) {
			lines = append(lines, head+kind+", embedded "+text(member.Type))
		}
	}
	return lines
}

// isLower reports whether the name of a type of the same package is unexported.
func isLower(name string) bool { return !strings.Contains(name, ".") && !ast.IsExported(name) }

// text prints a node on one line.
func text(node ast.Node) string {
	var out bytes.Buffer
	if err := printer.Fprint(&out, token.NewFileSet(), node); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// missing are the lines of a that b lacks.
func missing(a, b []byte) []string {
	have := make(map[string]bool)
	for line := range strings.Lines(string(b)) {
		have[line] = true
	}
	var lines []string
	for line := range strings.Lines(string(a)) {
		if !have[line] {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
