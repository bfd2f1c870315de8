// Postmark signs nothing: its URL holds a user and a password, which any library for Basic authentication checks.
export default {
  provider: "postmark",
  sdk: "express-basic-auth",
  documented: true,
  async verify(request, key) {
    const basicAuth = (await import("express-basic-auth")).default;
    const at = key.secret.indexOf(":");
    const users = { [key.secret.slice(0, at)]: key.secret.slice(at + 1) };
    let status = 0;
    const response = {
      set() {},
      status(code) {
        status = code;
        return { send() {}, json() {} };
      },
    };
    let passed = false;
    basicAuth({ users })({ headers: request.headers }, response, () => (passed = true));
    if (!passed && status !== 401) throw new Error(`it answers ${status}`);
    return passed;
  },
};
