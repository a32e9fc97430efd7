"""Signed values that clients carry for us."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapter.mcp.signing import BadSignature, Signer, _mac

KEY, OTHER = b"k" * 32, b"o" * 32
SIGNER = Signer([KEY])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@pytest.mark.requirement("R-84")
@given(st.dictionaries(st.text(), JSON))
def test_what_was_signed_comes_back(payload: dict[str, object]) -> None:
    text = SIGNER.sign("state", payload)

    assert SIGNER.verify("state", text) == payload
    assert text.isascii()
    assert not set(text) & set("+/= \n")


@pytest.mark.requirement("R-84")
@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(BadSignature):
        SIGNER.verify("state", text)


@pytest.mark.requirement("R-84")
def test_a_value_is_good_for_its_purpose_only() -> None:
    with pytest.raises(BadSignature):
        SIGNER.verify("cursor", SIGNER.sign("state", {"a": 1}))


@pytest.mark.requirement("R-84")
def test_the_first_key_signs_and_every_key_verifies() -> None:
    old = Signer([OTHER]).sign("state", {"a": 1})
    both = Signer([KEY, OTHER])

    assert both.verify("state", old) == {"a": 1}
    assert Signer([KEY]).verify("state", both.sign("state", {"b": 2})) == {"b": 2}
    with pytest.raises(BadSignature):
        Signer([OTHER]).verify("state", both.sign("state", {"b": 2}))


@pytest.mark.parametrize("body", ["W10", "bm8", "!!", "a"])
def test_signed_bytes_that_are_no_object_are_refused(body: str) -> None:
    with pytest.raises(BadSignature):
        SIGNER.verify("state", f"{body}.{_mac(KEY, 'state', body.encode())}")


def test_without_a_key_nothing_can_be_signed() -> None:
    with pytest.raises(ValueError, match="at least one key"):
        Signer([])
