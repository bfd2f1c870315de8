// The clock of the SDKs. It shows the time of the request at hand, so that a saved request is as fresh as it was.
const Real = globalThis.Date;
let now;

globalThis.Date = class Date extends Real {
  constructor(...args) {
    if (args.length === 0 && now !== undefined) super(now);
    else super(...args);
  }
  static now() {
    return now ?? Real.now();
  }
};

// useClock stops the clock at a time in milliseconds; undefined is the real time.
export function useClock(milliseconds) {
  now = milliseconds;
}
