//! Each rule with the right value.
