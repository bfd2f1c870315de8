package hookadmin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/problem"
)

// The pages of the dashboard. Each file of templates except layout.html is the content of one page;
// static holds their style sheet.
//
//go:embed templates static
var files embed.FS

const pagePolicy = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// sections are the pages that every page links to, in this order.
var sections = []struct{ path, title string }{
	{"/", "Overview"},
	{"/sources", "Sources"},
}

// page is the data of layout.html.
type page struct {
	Title   string
	Content any // data of the page's template

	// render sets the rest.
	Root     string // relative link to the overview; all links begin with it
	Sections []section
	SignOut  bool // shows the button that ends the session
	// MayChange says that the caller may send the forms that change something.
	MayChange bool
}

// section is a link to a page.
type section struct {
	Title, Link string
	Current     bool
}

// templates holds the pages by file name.
var templates = func() map[string]*template.Template {
	layout := template.Must(template.ParseFS(files, "templates/layout.html"))
	all := make(map[string]*template.Template)
	for _, name := range contentOf("templates") {
		if name != "layout.html" {
			all[name] = template.Must(template.Must(layout.Clone()).ParseFS(files, "templates/"+name))
		}
	}
	return all
}()

// contentOf returns the names of the files in an embedded folder.
func contentOf(folder string) []string {
	entries, err := fs.ReadDir(files, folder)
	if err != nil {
		panic(err) // an embedded folder exists
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// render answers with a page. Callers without access get no links to sections.
func (h *handler) render(w http.ResponseWriter, r *http.Request, status int, name string, p *page) {
	p.Root = rootFrom(r.URL.EscapedPath())
	if h.access != NoAccess {
		p.SignOut = h.guard.signsIn()
		p.MayChange = h.access == FullAccess
		for _, s := range sections {
			p.Sections = append(p.Sections, section{
				Title: s.title, Link: p.Root + strings.TrimPrefix(s.path, "/"), Current: s.path == r.URL.EscapedPath(),
			})
		}
	}
	var body bytes.Buffer
	if err := templates[name].ExecuteTemplate(&body, "layout.html", p); err != nil {
		// Only a defect of a template gets here.
		panic(err)
	}
	problem.Write(w, status, "text/html; charset=utf-8", body.Bytes())
}

// rootFrom returns the relative link from a page to "/": the handler may be mounted under another
// path.
func rootFrom(escapedPath string) string {
	if depth := strings.Count(escapedPath, "/") - 1; depth > 0 {
		return strings.Repeat("../", depth)
	}
	return "./"
}

func setPageHeaders(header http.Header) {
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	// With "no-referrer", browsers send "Origin: null" with our own forms.
	header.Set("Referrer-Policy", "same-origin")
}

// problemPage is the content of problem.html.
type problemPage struct {
	Detail  string
	ErrorID string
}

// asset is a file of the folder static.
type asset struct {
	content []byte
	etag    string
}

var assets = func() map[string]asset {
	all := make(map[string]asset)
	for _, name := range contentOf("static") {
		content, err := files.ReadFile(path.Join("static", name))
		if err != nil {
			panic(err) // an embedded file exists
		}
		sum := sha256.Sum256(content)
		all[name] = asset{content, fmt.Sprintf("%q", hex.EncodeToString(sum[:8]))}
	}
	return all
}()

// showAsset answers with a file that browsers may keep, but must revalidate each time: its content
// changes with the version of the program, its name does not.
func (h *handler) showAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	file, ok := assets[name]
	if !ok {
		h.fail(w, r, http.StatusNotFound, "There is no such file.", nil)
		return
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", file.etag)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(file.content))
}
