// Package hookadmin is the admin API and the dashboard of hookonce as one http.Handler.
// /api/v1/openapi.json describes the API, /healthz answers 200 while the process runs, and /readyz while deliveries can be
// claimed.
//
// The handler reads a [driver.Store] and makes changes through a [hookonce.Engine], so it can be
// mounted in any program that uses the library. Mount it at the root of its own listener, or under a prefix:
//
//	mux.Handle("/admin/", http.StripPrefix("/admin", handler)) // an http.ServeMux, or a router alike
//
// A router must leave the escapes of a path as they are, as http.ServeMux does: an event id may contain "/" and "..".
//
// # Access
//
// [New] is for a listener of its own, with tokens. A request needs "Authorization: Bearer TOKEN" with
// Config.Token, or with Config.ReadToken, which sees everything and changes nothing. Without a token,
// New insists on a loopback listener, and the handler refuses requests whose Host or Origin is not
// loopback: a web page that the operator visits can make a browser send requests to 127.0.0.1 under its
// own name (DNS rebinding), but it cannot change these two headers. A reverse proxy in front of a
// loopback listener makes remote callers look local, so set a token there.
//
// [NewHandler] is for a program with logins of its own: Config.Authorize decides about each request.
//
// /healthz and /readyz reveal nothing secret, need no access, and accept any Host, because probes come
// by address.
//
// A browser cannot send the header, so the form at /login takes a token and starts a session: a
// cookie that holds its expiry, signed with a key derived from the token. A session opens the pages,
// and the API for reading. It opens no change by the API, and the forms of the pages are accepted from
// pages of the same origin only. Changing a token ends its sessions. Failed logins are limited by remote
// address: 10 at once, and one more every 6 s.
//
// # Profiles
//
// Only a profile of the running process shows why a gateway is slow or grows. A listener of its own for
// net/http/pprof would need its own access control, so the profiles are here, behind the token.
//
// # Pages
//
// The dashboard is HTML that works without JavaScript; scripts add keys, copying, charts and fresh rows.
// It loads only its own files, and its policy allows no script or style within a page. Its links are
// relative, so it works under any path. Its figures are those of the API. To add a page, add its
// file to templates, a line to endpoints, and one to sections if all pages link to it.
//
// # Changes
//
// GET never changes anything. A POST is refused if a page of another origin, or of another port of
// this machine, makes a browser send it, and if its content type is not application/json, which
// forms cannot have. The body is read strictly: leaving out a key can widen a request, so an
// unknown key and an empty value are errors.
//
// # Shapes
//
// The exported types such as EventPage and EventDetail are the JSON of the API; the command line
// prints the same. Keys are snake_case. Times are RFC 3339 in UTC with microseconds, or null.
// Counters of 64 bits are strings, because many JSON readers round numbers beyond 2⁵³. Errors are
// application/problem+json (RFC 9457); their "instance" is an error id, which the log line carries
// as error_id.
package hookadmin
