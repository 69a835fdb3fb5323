"""Numbers and units of templates: `{{convert|6|ft|4|in|cm}}`, `{{val|1.2|e=5|u=kg}}`.

What was written is shown, and no other unit. What is not understood is left out: a hole
beats a false number.
"""

import re
from collections.abc import Callable, Sequence

_BETWEEN_NUMBERS = {
    **dict.fromkeys(("-", "–", "to(-)"), "–"),
    **{word: f" {word} " for word in ("to", "and", "or", "by", "x")},
    **{f"{word}(-)": f" {word} " for word in ("and", "or", "by")},
    **dict.fromkeys(("+/-", "±"), " ± "),
    "to about": " to about ",
}
_NUMBER = re.compile(r"[-−+]?[\d.,/⁄½⅓⅔¼¾⅛+ ]*[\d½⅓⅔¼¾⅛]")
_SHOWN_AS_WRITTEN = """
m km cm mm nm in inch inches ft foot feet yd yard yards mi mile miles nmi
metre metres meter meters kilometre kilometres kilometer kilometers
centimetre centimetres millimetre millimetres furlong kg g mg t lb lbs oz st
pound pounds ounce ounces ton tons tonne tonnes gram grams kilogram
kilograms stone °C °F K ha acre acres hectare hectares L l mL ml litre
litres liter liters mph km/h kn knot knots m/s ft/s km/s hp PS W kW MW GW V
kV A Hz kHz MHz GHz Pa hPa kPa MPa bar atm psi mmHg inHg N kN lbf J kJ MJ
cal kcal eV Nm ly pc AU s min h ft/min rpm carat barrel barrels cc µm
"""
_UNITS = {
    **{unit: unit for unit in _SHOWN_AS_WRITTEN.split()},
    **{"C": "°C", "F": "°F", "um": "µm", "kph": "km/h", "kmph": "km/h"},
    **{"sqmi": "sq mi", "sqft": "sq ft", "sqin": "sq in", "sqyd": "sq yd"},
    **{"mi2": "sq mi", "ft2": "sq ft", "in2": "sq in", "yd2": "sq yd"},
    **{"km2": "km²", "sqkm": "km²", "m2": "m²", "sqm": "m²", "cm2": "cm²"},
    **{"mm2": "mm²", "m3": "m³", "cm3": "cm³", "km3": "km³"},
    **{"cuft": "cu ft", "cuin": "cu in", "cuyd": "cu yd", "cumi": "cu mi"},
    **{"ft3": "cu ft", "in3": "cu in", "USgal": "US gal", "impgal": "imp gal"},
    **{"usgal": "US gal", "floz": "fl oz", "USfloz": "US fl oz", "oilbbl": "barrels"},
    **{"g/cm3": "g/cm³", "kg/m3": "kg/m³", "lbft": "lb ft", "ftlbf": "ft lbf"},
    **{"koilbbl": "thousand barrels", "Moilbbl": "million barrels"},
    **{"Goilbbl": "billion barrels", "oilbbl/d": "barrels per day"},
    **{"koilbbl/d": "thousand barrels per day"},
    **{"Moilbbl/d": "million barrels per day"},
    **{"LT": "long tons", "ST": "short tons", "MT": "metric tons"},
}
# Before a unit: `e6acre` is a million of them.
_FACTORS = {"e3": "thousand", "e6": "million", "e9": "billion", "e12": "trillion"}
# A quantity in two units, the larger first.
_PARTS = {
    "ft": ("in",),
    "foot": ("in", "inch", "inches"),
    "feet": ("in", "inch", "inches"),
    "yd": ("ft",),
    "mi": ("yd", "ft", "furlong"),
    "lb": ("oz",),
    "st": ("lb",),
}


def quantity(parts: Sequence[str]) -> str:
    """The arguments of `convert`: `5|to|7|km|mi` is "5 to 7 km"; "" if unknown."""
    number, *rest = parts or ("",)
    text = _number(number)
    while text and len(rest) > 1 and rest[0] in _BETWEEN_NUMBERS:
        number = _number(rest[1])
        text = f"{text}{_BETWEEN_NUMBERS[rest[0]]}{number}" if number else ""
        rest = rest[2:]
    unit = _unit(rest[0]) if rest else ""
    if not text or not unit:
        return ""
    text = f"{text} {unit}"
    while len(rest) > 2 and rest[2] in _PARTS.get(rest[0], ()):
        number = _number(rest[1])
        if not number:
            return ""
        rest = rest[2:]
        text = f"{text} {number} {_UNITS[rest[0]]}"
    return text


def _unit(name: str) -> str:
    """A unit as it is shown, with its factor; "" if it is none."""
    match = re.fullmatch(r"(e\d+)(.+)", name, re.ASCII)
    if match is None:
        return _UNITS.get(name, "")
    factor, unit = _FACTORS.get(match[1]), _UNITS.get(match[2])
    return f"{factor} {unit}" if factor and unit else ""


def value(parts: Sequence[str], named: Callable[[str], str]) -> str:
    """The arguments of `val`: `1.2|e=5|u=kg` is "1.2×10^5 kg"; "" if unknown."""
    if not parts or len(parts) > 2 or not _number(parts[0]):
        return ""
    if any(named(key).strip() for key in ("p", "s", "end", "up", "upl", "ut")):
        return ""
    text = parts[0]
    exponent = named("e").strip()
    if len(parts) == 2 and parts[1]:
        if re.fullmatch(r"\([\d.]+\)", parts[1]):
            text += parts[1]
        elif _number(parts[1]):
            text += f" ± {parts[1]}"
            text = f"({text})" if exponent else text
        else:
            return ""
    if exponent:
        text += power_of_ten(exponent)
    unit = named("u").strip() or named("ul").strip()
    return f"{text} {_UNITS.get(unit, unit)}".strip()


def power_of_ten(exponent: str) -> str:
    """`24` as "×10^24"."""
    return f"×10^{exponent}" if exponent else ""


def grouped(number: str) -> str:
    """`1234567.89` as "1,234,567.89"; "" for what is no plain number."""
    match = re.fullmatch(r"([-−]?)(\d+)(\.\d+)?", number, re.ASCII)
    if match is None:
        return ""
    # Python turns no more than some thousand digits into a number.
    if len(match[2]) > 100:
        return ""
    return f"{match[1]}{int(match[2]):,}{match[3] or ''}"


def _number(text: str) -> str:
    """A number as it is shown, `5+1/2` as "5 1/2"; "" if it is none."""
    if len(text) > 100 or not _NUMBER.fullmatch(text):
        return ""
    return re.sub(r"(?<=\d)\+(?=\d)", " ", text)
