// LaunchDarkly's SDKs verify no webhooks; this is Pipedream's integration.
import { useStubs } from "../lib/stubs.mjs";

export default {
  provider: "launchdarkly",
  sdk: "@pipedream/launchdarkly",
  async verify(request, key) {
    useStubs();
    const { default: source } = await import("@pipedream/launchdarkly/sources/common/webhook.mjs");
    const { isSignatureValid } = source.methods;
    return isSignatureValid.call({ getSecret: () => key.secret }, request.headers["x-ld-signature"], request.body);
  },
};
