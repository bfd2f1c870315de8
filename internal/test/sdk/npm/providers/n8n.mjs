// The triggers of n8n verify the webhooks of many providers whose own SDKs do not.
import { createRequire } from "node:module";
const require = createRequire(import.meta.url);

const webhookSecret = (key) => ({ webhookSecret: key.secret });

// subject judges by the trigger of a provider. credentials, if given, returns its credentials in n8n, and stored the
// data that the trigger has kept since it made the webhook.
const subject = (provider, node, { credentials = () => ({}), stored = webhookSecret, ...more } = {}) => ({
  provider,
  sdk: "n8n-nodes-base",
  async verify(request, key) {
    const { verifySignature } = require(`n8n-nodes-base/dist/nodes/${node}/${node}TriggerHelpers.js`);
    return await verifySignature.call({
      getHeaderData: () => request.headers,
      getRequestObject: () => ({ rawBody: Buffer.from(request.body), header: (name) => request.headers[name] }),
      getBodyData: () => JSON.parse(request.body),
      getWorkflowStaticData: () => stored(key),
      getCredentials: async () => credentials(key),
      getNodeParameter: (name, otherwise) => otherwise,
      getNodeWebhookUrl: () => request.url + (request.query ? `?${request.query}` : ""),
    });
  },
  ...more,
});

const bothTimes = { unchecked: { "another form of the time": "n8n takes seconds and milliseconds" } };

export default [
  subject("asana", "Asana", { stored: (key) => ({ hookSecret: key.secret }) }),
  subject("cal-com", "Cal"),
  subject("calendly", "Calendly", bothTimes),
  subject("customerio", "CustomerIo", { credentials: (key) => ({ webhookSigningKey: key.secret }), ...bothTimes }),
  subject("figma", "Figma"),
  subject("netlify", "Netlify"),
  subject("onfleet", "Onfleet", { credentials: (key) => ({ signingSecret: key.secret }) }),
  subject("typeform", "Typeform"),
  subject("webflow", "Webflow", { credentials: (key) => ({ clientSecret: key.secret }), ...bothTimes }),
  subject("zendesk", "Zendesk", { unchecked: { age: "n8n has no clock" } }),
  subject("box", "Box", { credentials: (key) => ({ signingKeyPrimary: key.secret }) }),
  subject("trello", "Trello", {
    credentials: (key) => ({ oauthSecret: key.secret }),
  }),
];
