module windlass.dev/bundles/pause

go 1.26.0
