package lint

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"testing"
)

// packages groups the files that are not tests by folder.
func packages(files []source) map[string][]source {
	byDir := make(map[string][]source)
	for _, f := range files {
		if !f.test {
			byDir[f.dir] = append(byDir[f.dir], f)
		}
	}
	return byDir
}

func TestPackagesAreDocumented(t *testing.T) {
	for dir, files := range packages(sources(t).files) {
		if !slices.ContainsFunc(files, func(f source) bool { return f.ast.Doc != nil }) {
			t.Errorf("package %s has no comment: say in its doc.go what it is for and what it promises", dir)
		}
		isDoc := func(f source) bool { return path.Base(f.path) == "doc.go" && f.ast.Doc != nil }
		if within(dir, "internal") && len(files) > 1 && !slices.ContainsFunc(files, isDoc) {
			t.Errorf("%s has %d files and no doc.go: say there how they hang together", dir, len(files))
		}
	}
}

// A reader of a public package sees its comments, not its code.
func TestExportedNamesAreDocumented(t *testing.T) {
	tree := sources(t)
	for _, f := range tree.files {
		if f.test || within(f.dir, "internal") {
			continue
		}
		for _, decl := range f.ast.Decls {
			for _, name := range undocumented(decl) {
				t.Errorf("%s: %s has no comment: say what it promises, its units, its errors, and who may call it when",
					tree.at(name), name.Name)
			}
		}
	}
}

// undocumented are the exported names that a declaration brings without a word. A comment on a group of constants or
// variables counts, and one at the end of the line.
func undocumented(decl ast.Decl) []*ast.Ident {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && !isContractElsewhere(d) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		var names []*ast.Ident
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Doc == nil && s.Comment == nil && (d.Doc == nil || d.Lparen.IsValid()) {
					names = append(names, s.Name)
				}
			case *ast.ValueSpec:
				if s.Doc == nil && s.Comment == nil && d.Doc == nil && !isEnumeration(d) {
					names = append(names, s.Names...)
				}
			}
		}
		return slices.DeleteFunc(names, func(name *ast.Ident) bool { return !name.IsExported() })
	}
	return nil
}

// isContractElsewhere reports whether the method belongs to a type that nobody sees, or keeps a promise that the standard
// library describes.
func isContractElsewhere(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return false
	}
	standard := []string{"String", "Error", "Is", "As", "Unwrap", "MarshalText", "UnmarshalText"}
	return !ast.IsExported(receiver(fn)) || slices.Contains(standard, fn.Name.Name)
}

// isEnumeration reports whether the constants are the values of a type of their own, whose comment speaks for those whose
// names say enough.
func isEnumeration(d *ast.GenDecl) bool {
	first, ok := d.Specs[0].(*ast.ValueSpec)
	return ok && d.Tok == token.CONST && first.Type != nil
}

// receiver is the name of a method's type.
func receiver(fn *ast.FuncDecl) string {
	typ := fn.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
