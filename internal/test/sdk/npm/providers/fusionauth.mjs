// FusionAuth's SDKs have no verifier; FusionAuth's documentation describes this check of the JWT and its claim.
import { createHash, createPrivateKey, createPublicKey, createSecretKey } from "node:crypto";

const sum = (body) => createHash("sha256").update(body).digest("base64");

const subject = (scheme, algorithm) => ({
  provider: "fusionauth",
  scheme,
  variant: algorithm,
  sdk: "jose",
  documented: true,
  async verify(request, key) {
    const { jwtVerify } = await import("jose");
    const loaded = key.secret ? createSecretKey(key.secret, "utf8") : createPublicKey(key.public);
    const { payload } = await jwtVerify(request.headers["x-fusionauth-signature-jwt"], loaded);
    return payload.request_body_sha256 === sum(request.body);
  },
  async sign(request, key) {
    const { SignJWT } = await import("jose");
    const loaded = key.secret ? createSecretKey(key.secret, "utf8") : createPrivateKey(key.private);
    const token = await new SignJWT({ request_body_sha256: sum(request.body) }).setProtectedHeader({ alg: algorithm }).sign(loaded);
    return { headers: { "x-fusionauth-signature-jwt": token } };
  },
});

export default [
  subject("jwt", "RS256"),
  subject("jwt", "RS512"),
  subject("jwt-es256", "ES256"),
  subject("jwt-es384", "ES384"),
  subject("jwt-es512", "ES512"),
  subject("jwt-eddsa", "EdDSA"),
  subject("jwt-hmac", "HS256"),
  subject("jwt-hmac", "HS512"),
];
