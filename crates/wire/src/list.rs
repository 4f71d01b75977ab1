//! Lists in the values of fields (RFC 9110, 5.6.1).

/// The elements of a list, empty ones included.
pub(crate) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim)
}

/// Whether an element is this name, in whatever case.
pub(crate) fn is(element: &[u8], name: &str) -> bool {
    element.eq_ignore_ascii_case(name.as_bytes())
}

/// Without optional white space around it: SP and HTAB only.
fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}
