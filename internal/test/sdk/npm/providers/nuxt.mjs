// The verifiers of nuxt-webhook-validators, a package of the Nuxt community, for providers whose own SDKs verify nothing.
import { recorded } from "../lib/playground.mjs";
import { useStubs } from "../lib/stubs.mjs";

// subject judges by the file of a provider, which exports one function.
const subject = (provider, file, config, more) => ({
  provider,
  sdk: "nuxt-webhook-validators",
  async verify(request, key) {
    useStubs();
    const path = "../node_modules/nuxt-webhook-validators/dist/runtime/server/lib/validators/";
    const [isValid] = Object.values(await import(`${path}${file}.js`));
    const settings = { [file.replace(".post", "")]: config(key) };
    return await isValid({ headers: request.headers, body: request.body, config: { webhook: settings } });
  },
  ...more,
});

const secretKey = (key) => ({ secretKey: key.secret });

export default [
  subject("bitbucket", "bitbucket", secretKey, {
    recorded: () =>
      recorded("bitbucket", (name) => ({ "x-event-key": name.replace("-", ":"), "x-request-uuid": `playground-${name}` })),
  }),
  subject("cal-com", "calcom.post", secretKey),
  subject("dropbox", "dropbox", (key) => ({ appSecret: key.secret })),
  subject("heroku", "heroku", secretKey),
  subject("vercel", "vercel", secretKey),
  subject("docusign", "docusign", secretKey),
  subject("twitch", "twitch", secretKey, {
    signed: ["twitch-eventsub-message-id"],
    unchecked: { age: "the package has no clock" },
  }),
];
