package provider

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/locate"
)

// shape is a shortened delivery of a real provider, and its events.
type shape struct {
	name  string
	rules EventRules
	body  string
	want  []string // "id | type | time" of each event, or "bad"
}

// TestShapes checks that rules can locate events and ids in all forms of deliveries. The header
// X-Delivery is "d1".
func TestShapes(t *testing.T) {
	t.Parallel()
	for _, c := range append(append(jsonShapes(), envelopeShapes()...), documentShapes()...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := &locate.Input{Header: http.Header{"X-Delivery": {"d1"}}, Body: []byte(c.body)}
			events, bad := mustRules(t, c.rules).Extract(in)
			var got []string
			for _, e := range events {
				at := "never"
				if !e.Time.IsZero() {
					at = e.Time.Format(time.RFC3339Nano)
				}
				got = append(got, strings.Join([]string{e.ID, e.Type, at}, " | "))
			}
			for range bad {
				got = append(got, "bad")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s %+v", diff, bad)
			}
		})
	}
}

func sum(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// jsonShapes returns documents that are an array, or hold one.
func jsonShapes() []shape {
	const day = "2023-11-14T22:13:20Z"
	eventGrid := EventRules{ID: "item:id", Type: "item:eventType | item:type", Time: "item:eventTime | item:time", Batch: "body: | one"}
	adobe := EventRules{ID: "item:event_id", Type: "item:event.@type | item:type", Time: "item:event.activitystreams:published | item:time", Batch: "body: | one"}
	auth0 := EventRules{ID: "item:log_id", Type: "item:data.type", Time: "item:data.date", Batch: "body: | body:logs"}
	xero := EventRules{
		ID:   "item:tenantId + item:resourceId + item:eventCategory + item:eventType + item:eventDateUtc",
		Type: "item:eventCategory + item:eventType", Time: "item:eventDateUtc", Batch: "body:events",
	}
	graph := EventRules{ID: "item:id | item:subscriptionId + item:resource + item:changeType + item:resourceData.@odata\\.etag?", Type: "item:changeType", Batch: "body:value"}
	return []shape{
		{
			"sendgrid",
			EventRules{ID: "item:sg_event_id", Type: "item:event", Time: "item:timestamp", Batch: "body:"},
			`[{"event":"dropped","sg_event_id":"ZHJ","timestamp":1700000000},{"event":"open"}]` + "\r\n",
			[]string{"ZHJ | dropped | " + day, "bad"},
		},
		{
			"gocardless",
			EventRules{ID: "item:id", Type: "item:resource_type + item:action", Time: "item:created_at", Batch: "body:events"},
			`{"events":[{"id":"EV1","created_at":"2018-07-05T09:13:51.404Z","resource_type":"subscriptions","action":"created"},{"id":"EV2"}]}`,
			[]string{"EV1 | subscriptions:created | 2018-07-05T09:13:51.404Z", "EV2 |  | never"},
		},
		{"xero, intent to receive", xero, `{"events":[],"firstEventSequence":0,"lastEventSequence":0,"entropy":"S0m3"}`, nil},
		{
			"xero", xero,
			`{"events":[{"resourceId":"1","eventDateUtc":"2023-11-14T22:13:20.000","eventType":"UPDATE","eventCategory":"CONTACT","tenantId":"t1"}]}`,
			[]string{"t1:1:CONTACT:UPDATE:2023-11-14T22:13:20.000 | CONTACT:UPDATE | " + day},
		},
		{
			"hubspot",
			EventRules{ID: "item:portalId + item:subscriptionId + item:eventId + item:occurredAt", Type: "item:subscriptionType", Time: "item:occurredAt", Batch: "body:"},
			`[{"eventId":1,"subscriptionId":12345,"portalId":62515,"occurredAt":1700000000000,"subscriptionType":"contact.creation"}]`,
			[]string{"62515:12345:1:1700000000000 | contact.creation | " + day},
		},
		{
			"asana",
			EventRules{
				ID:   "item:resource.gid + item:action + item:change.field? + item:parent.gid? + item:created_at + item:user.gid?",
				Type: "item:resource.resource_type + item:action", Time: "item:created_at", Batch: "body:events",
			},
			`{"events":[{"action":"changed","created_at":"2023-11-14T22:13:20Z","resource":{"gid":"1","resource_type":"task"},"user":{"gid":"2"},"parent":null}]}`,
			[]string{"1:changed:::2023-11-14T22:13:20Z:2 | task:changed | " + day},
		},
		{"asana, heartbeat", EventRules{ID: "item:resource.gid", Batch: "body:events"}, `{"events":[]}`, nil},
		{
			"line",
			EventRules{ID: "item:webhookEventId", Type: "item:type", Time: "item:timestamp", Batch: "body:events"},
			`{"destination":"x","events":[{"webhookEventId":"01H","type":"message","timestamp":1700000000000}]}`,
			[]string{"01H | message | " + day},
		},
		{
			"okta",
			EventRules{ID: "item:uuid", Type: "item:eventType", Time: "item:published", Batch: "body:data.events"},
			`{"eventType":"com.okta.event_hook","eventId":"b5a1","data":{"events":[{"uuid":"f790","eventType":"user.session.start","published":"2023-11-14T22:13:20Z"}]}}`,
			[]string{"f790 | user.session.start | " + day},
		},
		{"auth0", auth0, `[{"log_id": "90020", "data": {"type": "s", "date": "2023-11-14T22:13:20Z"}}]`, []string{"90020 | s | " + day}},
		{"auth0, in an object", auth0, `{"logs":[{"log_id":"90020","data":{"type":"s"}}]}`, []string{"90020 | s | never"}},
		{"azure-event-grid", eventGrid, `[{"id":"1","eventType":"a","eventTime":"2023-11-14T22:13:20.0000000Z"}]`, []string{"1 | a | " + day}},
		{"azure-event-grid, CloudEvents", eventGrid, `{"specversion":"1.0","id":"2","type":"b","time":"2023-11-14T22:13:20Z"}`, []string{"2 | b | " + day}},
		{"adobe-io-events", adobe, `{"event_id":"e1","event":{"@type":"xdm:Updated","activitystreams:published":"2023-11-14T22:13:20.000Z"}}`, []string{"e1 | xdm:Updated | " + day}},
		{"adobe-io-events, batch", adobe, `[{"event_id":"e1"},{"event_id":"e2"}]`, []string{"e1 |  | never", "e2 |  | never"}},
		{
			"microsoft-graph", graph,
			`{"value":[{"id":"n1","changeType":"created"},{"subscriptionId":"s","resource":"me/x","changeType":"updated","resourceData":{"@odata.etag":"W/1"}},{"subscriptionId":"s","resource":"me/y","changeType":"deleted"}]}`,
			[]string{"n1 | created | never", "s:me/x:updated:W/1 | updated | never", "s:me/y:deleted: | deleted | never"},
		},
		{
			"statsig",
			EventRules{ID: "sha256:item", Type: "item:eventName | item:metadata.action", Time: "item:timestamp", Batch: "body: | body:data"},
			`{"data":[{"eventName":"e","timestamp":1700000000000}]}`,
			[]string{sum(`{"eventName":"e","timestamp":1700000000000}`) + " | e | " + day},
		},
		{
			"enode",
			EventRules{ID: "header:X-Delivery + sha256:item", Type: "item:event", Time: "item:createdAt", Batch: "body:"},
			`[{"event":"a"}, {"event":"b","createdAt":"2023-11-14T22:13:20.000Z"}]`,
			[]string{"d1:" + sum(`{"event":"a"}`) + " | a | never", "d1:" + sum(`{"event":"b","createdAt":"2023-11-14T22:13:20.000Z"}`) + " | b | " + day},
		},
	}
}

// envelopeShapes returns documents with nested arrays, and items of other forms.
func envelopeShapes() []shape {
	const day = "2023-11-14T22:13:20Z"
	whatsapp := EventRules{
		ID:    "item:value.messages[].id | item:value.statuses[].id + item:value.statuses[].status",
		Type:  "item:field",
		Time:  "item:value.messages[].timestamp | item:value.statuses[].timestamp",
		Batch: "body:entry[].changes",
	}
	quickbooks := EventRules{
		ID:    "item:specversion + item:source + item:id | item:realmId + item:dataChangeEvent.entities[].name + item:dataChangeEvent.entities[].id + item:dataChangeEvent.entities[].operation + item:dataChangeEvent.entities[].lastUpdated",
		Type:  "item:type | item:dataChangeEvent.entities[].name",
		Time:  "item:time | item:dataChangeEvent.entities[].lastUpdated",
		Batch: "body: | body:eventNotifications",
	}
	return []shape{
		{
			"adyen",
			EventRules{
				ID:   "item:NotificationRequestItem.pspReference + item:NotificationRequestItem.eventCode + item:NotificationRequestItem.success",
				Type: "item:NotificationRequestItem.eventCode", Time: "item:NotificationRequestItem.eventDate", Batch: "body:notificationItems",
			},
			`{"live":"false","notificationItems":[{"NotificationRequestItem":{"eventCode":"AUTHORISATION","eventDate":"2023-11-14T23:13:20+01:00","pspReference":"7914","success":"true"}}]}`,
			[]string{"7914:AUTHORISATION:true | AUTHORISATION | " + day},
		},
		{
			"meta",
			EventRules{ID: "sha256:item", Type: "body:object + item:changes[].field", Time: "item:time", Batch: "body:entry"},
			`{"object":"page","entry":[{"id":"1","time":1700000000,"changes":[{"field":"feed","value":{"message":"\u00e4"}}]}]}`,
			[]string{sum(`{"id":"1","time":1700000000,"changes":[{"field":"feed","value":{"message":"\u00e4"}}]}`) + " | page:feed | " + day},
		},
		{
			"meta, changes and messages",
			EventRules{ID: "item:message.mid | sha256:item", Type: "body:object + item:field?", Batch: "body:entry[].changes | body:entry[].messaging"},
			`{"object":"page","entry":[{"messaging":[{"message":{"mid":"m1"}}]},{"changes":[{"field":"feed"}]}]}`,
			[]string{"m1 | page | never", sum(`{"field":"feed"}`) + " | page:feed | never"},
		},
		{
			"whatsapp, message", whatsapp,
			`{"entry":[{"changes":[{"field":"messages","value":{"messages":[{"id":"wamid.1","timestamp":"1700000000"}]}}]}]}`,
			[]string{"wamid.1 | messages | " + day},
		},
		{
			"whatsapp, statuses", whatsapp,
			`{"entry":[{"changes":[{"field":"messages","value":{"statuses":[{"id":"wamid.1","status":"sent"}]}},{"field":"messages","value":{"statuses":[{"id":"wamid.1","status":"read"},{"id":"wamid.2","status":"sent"}]}}]}]}`,
			[]string{"wamid.1:sent | messages | never", "wamid.1:wamid.2:read:sent | messages | never"},
		},
		{
			"quickbooks", quickbooks,
			`[{"specversion":"1.0","id":"88cd","source":"intuit.x","type":"qbo.customer.created.v1","time":"2023-11-14T22:13:20Z"}]`,
			[]string{"1.0:intuit.x:88cd | qbo.customer.created.v1 | " + day},
		},
		{
			"quickbooks, before CloudEvents", quickbooks,
			`{"eventNotifications":[{"realmId":"r1","dataChangeEvent":{"entities":[{"name":"Customer","id":"1","operation":"Create","lastUpdated":"2023-11-14T14:13:20-0800"}]}},{"realmId":"r2","dataChangeEvent":{"entities":[]}}]}`,
			[]string{"r1:Customer:1:Create:2023-11-14T14:13:20-0800 | Customer | " + day, "bad"},
		},
		{
			"dropbox",
			EventRules{ID: "item: + sha256:body", Type: "const:list_folder", Batch: "body:list_folder.accounts"},
			`{"list_folder":{"accounts":["dbid:A","dbid:B"]}}`,
			[]string{
				"dbid:A:" + sum(`{"list_folder":{"accounts":["dbid:A","dbid:B"]}}`) + " | list_folder | never",
				"dbid:B:" + sum(`{"list_folder":{"accounts":["dbid:A","dbid:B"]}}`) + " | list_folder | never",
			},
		},
		{
			"klaviyo",
			EventRules{ID: "sha256:item", Type: "item:topic", Batch: "body:data"},
			`{"data":[{"topic":"event:klaviyo.sent_sms"}],"meta":{}}`,
			[]string{sum(`{"topic":"event:klaviyo.sent_sms"}`) + " | event:klaviyo.sent_sms | never"},
		},
		{
			"pusher",
			EventRules{ID: "body:time_ms + sha256:item", Type: "item:name", Time: "body:time_ms", Batch: "body:events"},
			`{"time_ms":1700000000000,"events":[{"name":"channel_occupied","channel":"c"}]}`,
			[]string{"1700000000000:" + sum(`{"name":"channel_occupied","channel":"c"}`) + " | channel_occupied | " + day},
		},
		{
			"ably",
			EventRules{ID: "item:data.messages[].id", Type: "item:name", Time: "item:timestamp", Batch: "body:items"},
			`{"items":[{"name":"message","timestamp":1700000000000,"data":{"messages":[{"id":"a:0"},{"id":"a:1"}]}}]}`,
			[]string{"a:0:a:1 | message | " + day},
		},
		{
			"akeneo",
			EventRules{ID: "item:event_id", Type: "item:action", Time: "item:event_datetime", Batch: "body:events"},
			`{"events":[{"action":"product.created","event_id":"116d","event_datetime":"2023-11-14T22:13:20+0000"}]}`,
			[]string{"116d | product.created | " + day},
		},
		{
			"fastspring",
			EventRules{ID: "item:id", Type: "item:type", Time: "item:created", Batch: "body:events"},
			`{"events":[{"id":"x1","live":true,"type":"order.completed","created":1700000000000}]}`,
			[]string{"x1 | order.completed | " + day},
		},
	}
}

// documentShapes returns bodies that are not JSON.
func documentShapes() []shape {
	const day = "2023-11-14T22:13:20Z"
	const notification = `<Notification><Id>%s</Id><sObject xsi:type="sf:Account" xmlns:sf="urn:sobject.enterprise.soap.sforce.com"><sf:Id>001</sf:Id></sObject></Notification>`
	soap := func(ids ...string) string {
		var all string
		for _, id := range ids {
			all += fmt.Sprintf(notification, id)
		}
		return `<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
 <soapenv:Body>
  <notifications xmlns="http://soap.sforce.com/2005/09/outbound"><OrganizationId>00D</OrganizationId>` + all + `</notifications>
 </soapenv:Body>
</soapenv:Envelope>`
	}
	salesforce := EventRules{ID: "item:Id", Type: "item:sObject.@type", Document: "xml", Batch: "body:Envelope.Body.notifications.Notification"}
	braintree := EventRules{
		ID:   "body:notification.kind + body:notification.timestamp + sha256:body",
		Type: "body:notification.kind", Time: "body:notification.timestamp", Document: "form_xml:bt_payload",
	}
	payload := form("bt_signature", "k|00", "bt_payload", lines(`<notification><timestamp type="datetime">2023-11-14T22:13:20Z</timestamp><kind>check</kind><subject><check type="boolean">true</check></subject></notification>`))
	mandrill := EventRules{ID: "item:_id + item:event + item:ts", Type: "item:event", Time: "item:ts", Document: "form:mandrill_events", Batch: "body:"}
	wix := EventRules{ID: "body:data.data.id", Type: "body:data.eventType", Time: "body:data.data.eventTime", Document: "jwt"}
	return []shape{
		{"salesforce, one", salesforce, soap("04l1"), []string{"04l1 | sf:Account | never"}},
		{"salesforce, two", salesforce, soap("04l1", "04l2"), []string{"04l1 | sf:Account | never", "04l2 | sf:Account | never"}},
		{"salesforce, none", salesforce, soap(), []string{"bad"}},
		{"braintree", braintree, payload, []string{"check:2023-11-14T22:13:20Z:" + sum(payload) + " | check | " + day}},
		{
			"mandrill", mandrill, form("mandrill_events", `[{"event":"send","_id":"776","ts":1700000000},{"event":"open","_id":"776","ts":1700000001}]`),
			[]string{"776:send:1700000000 | send | " + day, "776:open:1700000001 | open | 2023-11-14T22:13:21Z"},
		},
		{"mandrill, test", mandrill, "mandrill_events=%5B%5D", nil},
		{"mandrill, another form", mandrill, "events=%5B%5D", []string{"bad"}},
		{
			"travis-ci",
			EventRules{ID: "body:id + body:state + body:finished_at?", Type: "body:state", Time: "body:finished_at", Document: "form:payload"},
			form("payload", `{"id":1,"state":"passed","finished_at":"2023-11-14T22:13:20Z"}`),
			[]string{"1:passed:2023-11-14T22:13:20Z | passed | " + day},
		},
		{
			"wix", wix,
			jwt(`{"data":"{\"eventType\":\"order_created\",\"instanceId\":\"i1\",\"data\":\"{\\\"id\\\":\\\"1\\\",\\\"eventTime\\\":\\\"2023-11-14T22:13:20Z\\\"}\"}","iat":1700000000}`),
			[]string{"1 | order_created | " + day},
		},
		{"wix, no JWT", wix, `{"data":{"data":{"id":"1"}}}`, []string{"bad"}},
	}
}

// TestItemBodies checks the body of an item's event: its JSON.
func TestItemBodies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules EventRules
		body  string
		want  []string
	}{
		{EventRules{ID: "item:id", Batch: "body:a[].b | one"}, `{"a":[{"b":[ {"id":1 } ]}]}`, []string{`{"id":1 }`}},
		{EventRules{ID: "item:id", Batch: "body: | one"}, ` {"id":1} `, []string{` {"id":1} `}},
		{EventRules{ID: "item:id", Batch: "body:", Document: "form:p"}, form("p", `[ {"id":"é"} ]`), []string{`{"id":"é"}`}},
		{EventRules{ID: "item:id", Batch: "body:a.b", Document: "xml"}, `<a><b><id>1</id></b></a>`, []string{`{"id":"1"}`}},
		{EventRules{ID: "body:a.id", Document: "xml"}, `<a><id>1</id></a>`, []string{`<a><id>1</id></a>`}},
	} {
		events, bad := mustRules(t, c.rules).Extract(&locate.Input{Body: []byte(c.body)})
		var got []string
		for _, e := range events {
			got = append(got, string(e.Body))
		}
		if diff := cmp.Diff(c.want, got); diff != "" || len(bad) > 0 {
			t.Errorf("%s: %+v %s", c.body, bad, diff)
		}
	}
}
