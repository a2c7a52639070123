"""A badge for a README: how a kill path stands, as one small SVG."""

from __future__ import annotations

from html import escape

from killcheck.history.series import Story
from killcheck.history.words import badge_of

__all__ = ["badge"]

#: Pixels of a character of the badge's type, on average, and around a text.
_CHARACTER, _AROUND = 6.6, 12
_SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="20" role="img"
 aria-label="kill path: {words}">
<title>kill path: {words}</title>
<rect width="{whole}" height="20" rx="3" fill="#424a53"/>
<path fill="{colour}" d="M{left} 0h{rest}q3 0 3 3v14q0 3 -3 3h-{rest}z"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{first}" y="14">kill path</text><text x="{second}" y="14">{words}</text>
</g></svg>
"""


def badge(story: Story) -> str:
    """The SVG."""
    words, colour = badge_of(story)
    left = _width("kill path")
    right = _width(words)
    return _SVG.format(
        whole=left + right,
        left=left,
        rest=right - 3,
        first=left / 2,
        second=left + right / 2,
        words=escape(words),
        colour=colour,
    )


def _width(text: str) -> int:
    return round(len(text) * _CHARACTER) + _AROUND
