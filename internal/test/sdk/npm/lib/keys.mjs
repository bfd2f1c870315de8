// The forms of public keys that SDKs expect.
import { createPublicKey } from "node:crypto";

// jwk returns the public key of a pair as a JWK with more members, such as kid and alg.
export const jwk = (key, more) => ({ ...createPublicKey(key.public).export({ format: "jwk" }), ...more });

// jwks returns a document with that one key.
export const jwks = (key, more) => JSON.stringify({ keys: [jwk(key, more)] });

// rawPublic returns the 32 bytes of an Ed25519 key.
export const rawPublic = (key) => Buffer.from(jwk(key).x, "base64url");
