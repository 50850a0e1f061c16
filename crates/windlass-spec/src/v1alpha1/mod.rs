//! `windlass.dev/v1alpha1`: what a person writes.
