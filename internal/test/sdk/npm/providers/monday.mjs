// monday.com's documentation verifies the token with a general library of JWTs.
const address = (request) => request.url + (request.query ? `?${request.query}` : "");

export default {
  provider: "monday",
  sdk: "jose",
  documented: true,
  covered: [], // nothing of the body
  async verify(request, key) {
    const { jwtVerify } = await import("jose");
    const token = request.headers.authorization;
    await jwtVerify(token, Buffer.from(key.secret), { algorithms: ["HS256"], audience: address(request) });
    return true;
  },
  async sign(request, key) {
    const { SignJWT } = await import("jose");
    const now = Math.floor(request.now / 1000);
    const token = new SignJWT({ accountId: 1, userId: 1 }).setProtectedHeader({ alg: "HS256", typ: "JWT" });
    token.setAudience(address(request)).setIssuedAt(now).setExpirationTime(now + 300);
    return { headers: { authorization: await token.sign(Buffer.from(key.secret)) } };
  },
};
