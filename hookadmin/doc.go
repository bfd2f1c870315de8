// Package hookadmin is the admin API and the dashboard of hookonce as one
// http.Handler.
//
//	GET  /api/v1/events                                  a page of events, newest first
//	GET  /api/v1/events/{source}/{event_id}              one event with all that is known of it
//	POST /api/v1/events/{source}/{event_id}/replay       makes a finished event owed again
//	GET  /api/v1/dead-letters                            a page of dead letters
//	POST /api/v1/dead-letters/replay, /discard           by ids or by filter
//	GET  /api/v1/messages                                a page of messages
//	POST /api/v1/messages/{id}/retry                     makes one due at once
//	GET  /api/v1/quarantine                              verified requests without a usable event
//	GET  /api/v1/sources, /routes, /destinations, /stats what is set up, what waits and what is stuck
//	GET  /api/v1/openapi.json                            all of this, for programs
//	GET  /healthz                                        200 while the process runs
//	GET  /readyz                                         200 while deliveries can be claimed, else 503
//	GET  /                                               the dashboard: warnings, what waits and what is stuck
//	GET  /sources                                        of it: sources, and whether each keeps events for long enough
//	GET  /login, POST /login, /logout                    of it: where there is a token
//
// It reads a [driver.Store], and has changes made by a [hookonce.Engine], so that
// it can be mounted beside any program that uses the library. Mount it at the
// root of a listener of its own, or behind http.StripPrefix; never behind an
// http.ServeMux that cleans paths, because an event id may hold "..".
//
// # Who may ask
//
// With a token every request needs "Authorization: Bearer TOKEN". Without one
// New insists on a loopback listener, and then refuses every request whose Host
// or Origin is not loopback too: a web page that the operator visits can make a
// browser send requests to 127.0.0.1, under a name of its own (DNS rebinding),
// but it cannot change these two headers. A reverse proxy in front of a
// loopback listener passes strangers on as local callers, so set a token there.
// /healthz and /readyz tell nothing worth a token, never need one, and accept
// any Host, because probes come by address.
//
// A browser cannot send that header, so /login takes the token in a form and
// gives a session for it: a cookie that says until when it is good, signed with a
// key that is derived from the token. It is good for pages alone, which change
// nothing, and never for the API, so that no page of another origin has anything
// to gain from it. Another token ends all sessions. Logins that fail are limited
// by the address that they come from: 5 at once, and one more every 12 s.
//
// # Pages
//
// The dashboard is HTML made here, without scripts, and loads nothing but its own
// style sheet. Its links are relative, so that it works wherever it is mounted.
// Its figures are those of the API. To add a page, add its file to templates, a
// line to endpoints, and one to sections if all pages are to link to it.
//
// # Changes
//
// GET changes nothing, ever. A POST is refused where a page of another origin
// makes a browser send it, be it of another port of this machine, and where its
// content type is not application/json, which no form has. Its body is read
// strictly: what a request leaves out may widen what it does, so a key that is
// not known, or a value that is empty, is a mistake and no wish.
//
// # Shapes
//
// The exported types such as EventPage and EventDetail are the JSON of the API;
// the command line prints the same. Keys are snake_case. Times are RFC 3339 in
// UTC with microseconds, and null where there is none. Counters of 64 bits are
// strings, because many readers of JSON round numbers beyond 2⁵³. Errors are
// application/problem+json (RFC 9457); their "instance" is an error id that the
// log line carries as error_id.
package hookadmin
