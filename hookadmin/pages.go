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
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hookonce/hookonce/internal/problem"
	"github.com/hookonce/hookonce/internal/runbook"
)

// The pages of the dashboard. Each file of templates is the content of one page, except layout.html,
// pieces.html and listing.html, which all pages share. static holds style, scripts and the pinned files of others.
//
//go:embed templates static
var files embed.FS

const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// sections are the pages that every page links to, in this order. key follows "g" on the keyboard.
var sections = []sectionPage{
	{"/", "Overview", "o"},
	{"/events", "Events", "e"},
	{"/dead-letters", "Dead letters", "d"},
	{"/refused", "Refused", "r"},
	{"/quarantine", "Quarantine", ""},
	{"/sources", "Sources", "s"},
	{"/destinations", "Destinations", "t"},
	{"/jobs", "Jobs", ""},
}

type sectionPage struct{ path, title, key string }

// page is the data of layout.html.
type page struct {
	Title   string
	Heading string // replaces Title as the heading: a name from outside; "" for none
	Up      *link  // the page above, or nil
	Content any    // data of the page's template
	Query   string // content of the search box
	Flash   *flash // the outcome of an action, or nil
	Live    *live  // nil for a page that does not change by itself
	Charts  bool   // the page has charts
	Watched bool   // a browser without JavaScript reloads the page by itself
	// See has the entries of the runbook about the trouble that the page shows.
	See  []runbook.Entry
	Made Time // when a live page was made

	// render sets the rest.
	Root      string // relative link to the overview; all links begin with it
	Sections  []section
	CanSearch bool
	Outage    *outage // nil while deliveries can be claimed
	About     Gateway
	Docs      string // address of the documentation; "" for no link
	SeeLinks  []link
	SignOut   bool // shows the button that ends the session
	// MayChange says that the caller may send the forms that change something.
	MayChange              bool
	Refresh                string // seconds until the browser reloads the page; "" for never
	RefreshLink, StillLink string // this page with and without Refresh
}

// section is a link to a page of sections.
type section struct {
	Title, Link, Key string
	Current          bool
}

// link is a link from a page, relative to it.
type link struct{ Href, Text string }

// flash is the outcome of an action, shown once above the page.
type flash struct {
	Kind string // good or bad
	Text string
}

// live describes how a page stays fresh. With JavaScript, items of the stream that match are counted
// as "12 new – show", and Every reloads the content in place. Without JavaScript there is a link to
// the same page with ?refresh=10.
type live struct {
	// On names the items of the stream that change the page, separated by spaces: a kind, or a kind and
	// an outcome as "attempt:dead"; "" for none.
	On     string
	Source string // only items of this source; "" for all
	Type   string // only items of this type; "" for all
	Every  int    // seconds between reloads in place; 0 for none
}

// templates returns the pages by file name. It parses them at the first call, because most commands never show one.
var templates = sync.OnceValue(func() map[string]*template.Template {
	shared := template.Must(template.New("layout.html").Funcs(pieces).
		ParseFS(files, "templates/layout.html", "templates/pieces.html", "templates/listing.html"))
	all := make(map[string]*template.Template)
	for _, name := range contentOf("templates") {
		if name != "layout.html" && name != "pieces.html" && name != "listing.html" {
			all[name] = template.Must(template.Must(shared.Clone()).ParseFS(files, "templates/"+name))
		}
	}
	return all
})

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
func (h *handling) render(w http.ResponseWriter, r *http.Request, status int, name string, p *page) {
	at := r.URL.EscapedPath()
	p.Root = rootFrom(at)
	p.Docs = h.docs
	if h.access != NoAccess {
		p.SignOut, p.About = h.guard.signsIn(), h.about
		p.MayChange = h.access == FullAccess
		p.Sections = sectionsAt(at, p.Root)
		p.CanSearch = true
		if status < http.StatusInternalServerError { // the page of an error has its own text
			p.Outage = h.outageNow(r)
		}
	}
	for _, entry := range p.See {
		if found := h.entryLink(entry); found != nil {
			p.SeeLinks = append(p.SeeLinks, *found)
		}
	}
	if p.Live != nil {
		values := r.URL.Query()
		p.Refresh = values.Get("refresh")
		values.Del("refresh")
		p.StillLink = "?" + values.Encode()
		values.Set("refresh", "10")
		p.RefreshLink = "?" + values.Encode()
	}
	var body bytes.Buffer
	if err := templates()[name].ExecuteTemplate(&body, "layout.html", p); err != nil {
		// Only a defect of a template gets here.
		panic(err)
	}
	problem.Write(w, status, "text/html; charset=utf-8", body.Bytes())
}

// entryLink returns the link to an entry of the runbook, or nil.
func (h *handler) entryLink(entry runbook.Entry) *link {
	folder, known := strings.CutSuffix(h.docs, "README.md")
	if entry == "" || !known {
		return nil
	}
	return &link{folder + entry.Page(), entry.Title()}
}

// sectionsAt returns the links to all sections from the page at an escaped path. A page below a
// section belongs to it.
func sectionsAt(at, root string) []section {
	var all []section
	for _, s := range sections {
		all = append(all, section{
			Title: s.title, Key: s.key, Link: root + strings.TrimPrefix(s.path, "/"),
			Current: at == s.path || s.path != "/" && strings.HasPrefix(at, s.path+"/"),
		})
	}
	return all
}

// rootFrom returns the relative link from a page to "/": the handler may be mounted under another
// path.
func rootFrom(escapedPath string) string {
	if depth := strings.Count(escapedPath, "/") - 1; depth > 0 {
		return strings.Repeat("../", depth)
	}
	return "./"
}

// pageQuery returns the parameters of a page that takes known ones besides "refresh", or answers with
// an error and returns false.
func (h *handling) pageQuery(w http.ResponseWriter, r *http.Request, known []string) (url.Values, bool) {
	values, ok := h.query(w, r)
	if !ok {
		return nil, false
	}
	err := checkParameters(values, slices.Concat(known, pageParameters))
	if err == nil {
		_, err = parseRefresh(values.Get("refresh"))
	}
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, err.Error(), nil)
		return nil, false
	}
	return values, true
}

// pageParameters are the parameters of pages that show how things are now.
var pageParameters = []string{"refresh"}

// parseRefresh reads how often a browser without JavaScript reloads a page, in seconds; "" is 0, never.
func parseRefresh(s string) (int, error) {
	const least, most = 5, 3600
	if s == "" {
		return 0, nil
	}
	if reason := badText("refresh", s); reason != "" {
		return 0, &ParameterError{"refresh", reason}
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, &ParameterError{"refresh", fmt.Sprintf("%q is not a number of seconds from %d to %d", s, least, most)}
	}
	return n, nil
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
	Root    string
	Back    bool // the caller may see other pages
	Again   bool // the same request may succeed later
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
func (h *handling) showAsset(w http.ResponseWriter, r *http.Request) {
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
