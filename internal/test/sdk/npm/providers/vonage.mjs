import { createHash } from "node:crypto";

const fieldsOf = (request) => {
  const json = request.headers["content-type"]?.startsWith("application/json");
  return json ? JSON.parse(request.body) : Object.fromEntries(new URLSearchParams(request.body));
};

const jwt = {
  provider: "vonage",
  sdk: "@vonage/jwt",
  params: { api_key: "a1b2c3d4" },
  unchecked: { age: "the package reads only exp, which Vonage does not send" },
  async verify(request, key) {
    const { verifySignature } = await import("@vonage/jwt");
    const token = request.headers.authorization.replace(/^Bearer /, "");
    if (!verifySignature(token, key.secret)) return false;
    // The package leaves this check to its caller; Vonage's documentation shows it.
    const claims = JSON.parse(Buffer.from(token.split(".")[1], "base64url"));
    return claims.payload_hash === createHash("sha256").update(request.body).digest("hex");
  },
};

// sms judges the SMS API by the generator that nexmo's server SDK offers for it.
const sms = (algorithm, method, more) => ({
  provider: "vonage",
  scheme: "sms-sig-hmac",
  variant: algorithm,
  sdk: "nexmo",
  params: { algorithm },
  async verify(request, key) {
    const fields = fieldsOf(request);
    return (await generate(method, key, fields)) === fields.sig;
  },
  ...more,
});

async function generate(method, key, fields) {
  const { default: HashGenerator } = await import("nexmo/lib/HashGenerator.js");
  return new HashGenerator().generate(method, key.secret, fields);
}

const given = { unchecked: { "another hash": "the parameter sets it" } };

export default [
  jwt,
  sms("hmac-sha256", "sha256"),
  sms("hmac-sha512", "sha512", given),
  sms("hmac-sha1", "sha1", given),
  sms("hmac-md5", "md5", given),
  sms("md5-concat", "md5hash", { unchecked: { ...given.unchecked, "another content": "the parameter sets it" } }),
];
