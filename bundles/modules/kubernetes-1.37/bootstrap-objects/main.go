// Command bootstrap-objects prints, as one JSON list, what a new control plane of this release makes for itself one by
// one: the RBAC policy that each API server reconciles when it starts, and the ServiceAccounts of the controllers. Laid
// into a new cluster all at once, they spare its first start many writes that wait for each other.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policy "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

func main() {
	if err := json.NewEncoder(os.Stdout).Encode(objects()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func objects() []any {
	list := []any{}
	for _, role := range append(policy.ClusterRoles(), policy.ControllerRoles()...) {
		role.TypeMeta = rbac("ClusterRole")
		list = append(list, role)
	}
	for _, binding := range policy.ClusterRoleBindings() {
		binding.TypeMeta = rbac("ClusterRoleBinding")
		list = append(list, binding)
	}
	for _, binding := range policy.ControllerRoleBindings() {
		binding.TypeMeta = rbac("ClusterRoleBinding")
		list = append(list, binding)
		list = append(list, serviceAccounts(binding.Subjects)...)
	}
	for _, namespace := range slices.Sorted(maps.Keys(policy.NamespaceRoles())) {
		for _, role := range policy.NamespaceRoles()[namespace] {
			role.TypeMeta, role.Namespace = rbac("Role"), namespace
			list = append(list, role)
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(policy.NamespaceRoleBindings())) {
		for _, binding := range policy.NamespaceRoleBindings()[namespace] {
			binding.TypeMeta, binding.Namespace = rbac("RoleBinding"), namespace
			list = append(list, binding)
		}
	}
	return list
}

func rbac(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

func serviceAccounts(subjects []rbacv1.Subject) []any {
	list := []any{}
	for _, subject := range subjects {
		if subject.Kind == rbacv1.ServiceAccountKind {
			list = append(list, corev1.ServiceAccount{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
				ObjectMeta: metav1.ObjectMeta{Name: subject.Name, Namespace: subject.Namespace},
			})
		}
	}
	return list
}
