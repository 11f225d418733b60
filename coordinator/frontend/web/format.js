// Numbers and times as people read them.

const LOCALE = "en";

export function decimals(value, digits) {
  return value.toLocaleString(LOCALE, {minimumFractionDigits: digits, maximumFractionDigits: digits});
}

// Three significant digits at most.
export function short(value) {
  return value.toLocaleString(LOCALE, {maximumSignificantDigits: 3});
}

export function whole(value) {
  return Math.round(value).toLocaleString(LOCALE);
}

// "1.23 TB"; powers of ten, as drives are sold.
export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (value >= 999.5 && unit + 1 < units.length) {
    value /= 1000;
    ++unit;
  }
  return `${short(value)} ${units[unit]}`;
}

// Of seconds: "0.31 s", "12.4 ms", "2 min 5 s".
export function duration(seconds) {
  if (seconds >= 60) {
    const minutes = Math.floor(seconds / 60);
    return `${minutes} min ${Math.round(seconds - minutes * 60)} s`;
  }
  if (seconds >= 0.1) return `${short(seconds)} s`;
  return seconds >= 0.001 ? `${short(seconds * 1e3)} ms` : `${short(seconds * 1e6)} µs`;
}

export function rate(tokensPerSecond) {
  return `${short(tokensPerSecond)} tokens/s`;
}

export function percent(fraction) {
  return `${Math.round(fraction * 100)} %`;
}

export function clock(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString(LOCALE, {hour12: false});
}

// "Today", "Yesterday", "12 March"
export function day(milliseconds, now = Date.now()) {
  const start = new Date(now).setHours(0, 0, 0, 0);
  if (milliseconds >= start) return "Today";
  if (milliseconds >= start - 86400e3) return "Yesterday";
  return new Date(milliseconds).toLocaleDateString(LOCALE, {day: "numeric", month: "long", year: "numeric"});
}

export function plural(count, one, many = `${one}s`) {
  return `${whole(count)} ${count === 1 ? one : many}`;
}
