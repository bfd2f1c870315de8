// Plaid's SDK has no verifier; Plaid's documentation shows this one, with jose.
import { createHash, createPublicKey, timingSafeEqual } from "node:crypto";

export default {
  provider: "plaid",
  sdk: "jose",
  documented: true,
  async verify(request, key) {
    const { decodeProtectedHeader, jwtVerify } = await import("jose");
    const token = request.headers["plaid-verification"];
    const header = decodeProtectedHeader(token);
    if (header.alg !== "ES256") throw new Error(`the algorithm is ${header.alg}`);
    if (!header.kid) throw new Error("there is no kid to fetch the key with");
    const { payload } = await jwtVerify(token, createPublicKey(key.public), { maxTokenAge: "5 min", algorithms: ["ES256"] });
    const sum = createHash("sha256").update(request.body).digest("hex");
    return timingSafeEqual(Buffer.from(sum), Buffer.from(payload.request_body_sha256));
  },
  async sign(request, key) {
    const { SignJWT, importPKCS8 } = await import("jose");
    const sum = createHash("sha256").update(request.body).digest("hex");
    const token = await new SignJWT({ request_body_sha256: sum })
      .setProtectedHeader({ alg: "ES256", kid: "6c5516e1-92dc-479e-a8ff-5a51992e0001", typ: "JWT" })
      .setIssuedAt(Math.floor(request.now / 1000))
      .sign(await importPKCS8(key.private, "ES256"));
    return { headers: { "plaid-verification": token } };
  },
};
