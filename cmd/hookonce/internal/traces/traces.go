// Package traces exports the spans of a gateway by OTLP over HTTP. The standard OTEL_* variables switch
// it on and set it up.
package traces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/hookonce/hookonce/internal/settingfile"
	"github.com/hookonce/hookonce/observe"
)

const (
	scope = "github.com/hookonce/hookonce"
	// closeTimeout bounds the export of the last spans.
	closeTimeout = 5 * time.Second
	maxFile      = 1 << 20          // bounds the size of a file that a variable names, in bytes
	warnInterval = 30 * time.Second // between two log lines about failed exports
)

// Exporter makes spans and exports them. It implements observe.Tracer.
type Exporter struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// Wanted reports whether the environment asks for an export of traces.
func Wanted(getenv func(string) string) bool {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" ||
		getenv("OTEL_TRACES_EXPORTER") == "otlp"
}

// check refuses variables that ask for something else than OTLP over HTTP. The SDK would ignore them.
func check(getenv func(string) string) error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := getenv(name); protocol != "" && protocol != "http/protobuf" {
			return fmt.Errorf("%s is %q: hookonce exports by http/protobuf only; set that, and the port of the collector for it, often 4318",
				name, protocol)
		}
	}
	if exporter := getenv("OTEL_TRACES_EXPORTER"); exporter != "" && exporter != "otlp" {
		return fmt.Errorf("OTEL_TRACES_EXPORTER is %q: hookonce knows otlp and none", exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		endpoint := getenv(name)
		if endpoint == "" {
			continue
		}
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			// The value may hold a credential.
			return fmt.Errorf("%s is not a URL with http or https and a host; write it as http://127.0.0.1:4318", name)
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		if getenv(name) == "" {
			continue
		}
		for item := range strings.SplitSeq(getenv(name), ",") {
			if !strings.Contains(item, "=") {
				return fmt.Errorf("%s must be a list of name=value, separated by commas", name)
			}
		}
	}
	for _, name := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
		for _, name := range []string{"OTEL_EXPORTER_OTLP_" + name, "OTEL_EXPORTER_OTLP_TRACES_" + name} {
			if path := getenv(name); path != "" {
				if _, err := settingfile.Read(path, maxFile); err != nil {
					return fmt.Errorf("the file of %s cannot be read: %w", name, err)
				}
			}
		}
	}
	return nil
}

// New returns the Exporter that the environment asks for; nil if it asks for none. getenv is
// os.Getenv: the SDK reads the variables itself. A collector that is away stops nothing.
func New(ctx context.Context, getenv func(string) string, version string, log *slog.Logger) (*Exporter, error) {
	if !Wanted(getenv) {
		return nil, nil
	}
	if err := check(getenv); err != nil {
		return nil, err
	}
	otel.SetErrorHandler(&failures{log: log})
	otel.SetLogger(logr.Discard()) // it would print variables that it cannot read, which may hold secrets
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithProxy(proxy))
	if err != nil {
		return nil, fmt.Errorf("traces: %w", plain(err))
	}
	attributes := []attribute.KeyValue{attribute.String("service.version", version)}
	if getenv("OTEL_SERVICE_NAME") == "" && !strings.Contains(getenv("OTEL_RESOURCE_ATTRIBUTES"), "service.name=") {
		attributes = append(attributes, attribute.String("service.name", "hookonce"))
	}
	about, err := resource.Merge(resource.Default(), resource.NewSchemaless(attributes...))
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return &Exporter{provider, provider.Tracer(scope, trace.WithInstrumentationVersion(version))}, nil
}

// proxy returns the proxy of a request. It refuses one that follows a redirect, which would take the headers, and so the
// collector's key, to another host.
func proxy(r *http.Request) (*url.URL, error) {
	if r.Response != nil {
		return nil, errors.New("the collector redirects; hookonce follows no redirect: set the address that it redirects to")
	}
	return http.ProxyFromEnvironment(r)
}

// Close exports the last spans, within closeTimeout. A nil Exporter does nothing.
func (e *Exporter) Close() {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := e.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// kinds are the kinds of spans by name; others are internal.
var kinds = map[string]trace.SpanKind{observe.SpanReceive: trace.SpanKindServer, observe.SpanAttempt: trace.SpanKindClient}

// Start implements observe.Tracer.
func (e *Exporter) Start(ctx context.Context, s observe.SpanStart) (context.Context, observe.Span) {
	// Without a parent it is invalid, which begins a trace.
	ctx = trace.ContextWithRemoteSpanContext(ctx, parse(s.Parent))
	options := []trace.SpanStartOption{trace.WithTimestamp(s.At), trace.WithSpanKind(kinds[s.Name])}
	if link := parse(s.Link); link.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: link}))
	}
	ctx, started := e.tracer.Start(ctx, "hookonce "+s.Name, options...)
	return ctx, span{started}
}

// parse reads a traceparent of version 00.
func parse(traceparent string) trace.SpanContext {
	parts := strings.Split(traceparent, "-")
	if len(parts) != 4 {
		return trace.SpanContext{}
	}
	id, idErr := trace.TraceIDFromHex(parts[1])
	parent, parentErr := trace.SpanIDFromHex(parts[2])
	if idErr != nil || parentErr != nil {
		return trace.SpanContext{}
	}
	var flags trace.TraceFlags
	if len(parts[3]) == 2 && strings.ContainsAny(parts[3][1:], "13579bdf") {
		flags = trace.FlagsSampled
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: parent, TraceFlags: flags, Remote: true})
}

type span struct{ trace.Span }

// Traceparent implements observe.Span.
func (s span) Traceparent() string {
	c := s.SpanContext()
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

// maxError bounds the text of an error in a span, in bytes.
const maxError = 1 << 10

// End implements observe.Span.
func (s span) End(e observe.SpanEnd) {
	if s.IsRecording() {
		for _, a := range e.Attributes {
			s.SetAttributes(attributeOf(a))
		}
		if e.Err != nil {
			text := e.Err.Error()
			s.SetStatus(codes.Error, strings.ToValidUTF8(text[:min(len(text), maxError)], "\uFFFD"))
		}
	}
	s.Span.End(trace.WithTimestamp(e.At))
}

// attributeOf returns an attribute under its name in hookonce, except the status of an HTTP answer,
// which has a standard name.
func attributeOf(a slog.Attr) attribute.KeyValue {
	name := "hookonce." + a.Key
	if a.Key == "status" {
		name = "http.response.status_code"
	}
	if a.Value.Kind() == slog.KindInt64 {
		return attribute.Int64(name, a.Value.Int64())
	}
	return attribute.String(name, strings.ToValidUTF8(a.Value.String(), "\uFFFD"))
}

// failures logs the reports of the SDK, now and then.
type failures struct {
	log  *slog.Logger
	last atomic.Int64 // Unix time of the last line, in nanoseconds
}

// Handle implements otel.ErrorHandler.
func (f *failures) Handle(err error) {
	now, last := time.Now().UnixNano(), f.last.Load()
	if now-last < warnInterval.Nanoseconds() || !f.last.CompareAndSwap(last, now) {
		return
	}
	f.log.Warn("exporting traces failed; receiving and sending go on, and spans are lost", slog.Any("error", plain(err)))
}

// plain returns err without the URL of the collector, which may hold a credential.
func plain(err error) error {
	if fault, ok := errors.AsType[*url.Error](err); ok {
		return fault.Err
	}
	return err
}
