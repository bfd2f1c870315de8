// The triggers of n8n verify the webhooks of many providers whose own SDKs do not.
import { createRequire } from "node:module";
const require = createRequire(import.meta.url);

// subject judges by the trigger of a provider. credentials, if given, returns its credentials in n8n.
const subject = (provider, node, { credentials = () => ({}), ...more } = {}) => ({
  provider,
  sdk: "n8n-nodes-base",
  async verify(request, key) {
    const { verifySignature } = require(`n8n-nodes-base/dist/nodes/${node}/${node}TriggerHelpers.js`);
    return await verifySignature.call({
      getHeaderData: () => request.headers,
      getRequestObject: () => ({ rawBody: Buffer.from(request.body), header: (name) => request.headers[name] }),
      getWorkflowStaticData: () => ({ webhookSecret: key.secret }),
      getCredentials: async () => credentials(key),
    });
  },
  ...more,
});

export default [
  subject("calendly", "Calendly"),
  subject("onfleet", "Onfleet", { credentials: (key) => ({ signingSecret: key.secret }) }),
  subject("typeform", "Typeform"),
  subject("zendesk", "Zendesk", { unchecked: { age: "n8n has no clock" } }),
];
